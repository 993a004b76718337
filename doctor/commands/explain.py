"""`doctor explain`: read logs, diagnose, print."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from doctor.commands.progress import Progress
from doctor.diagnosis.explain import Question, diagnose
from doctor.diagnosis.load import load_pack
from doctor.diagnosis.match import Index
from doctor.diagnosis.model import Report
from doctor.diagnosis.observe import Observer
from doctor.diagnosis.rule import Rule
from doctor.errors import DoctorError
from doctor.logs.lines import read_blocks
from doctor.logs.sources import Source, find_sources
from doctor.redact import flatten
from doctor.report.interface import find_target, load_renderer
from doctor.report.words import summarise

_LEVELS = ("never", "error", "warning")


def explain(options: argparse.Namespace) -> int:
    """Run the subcommand; 1 when something was found, 2 when there was nothing to read."""
    index = Index([*load_pack(), *_load_user_rules(options.rules)])
    measures, told = _read_response(options.response)
    question = Question(_check_command(options.command), measures)
    sources = [*told, *(find_sources(options.files) if options.files or not options.response else [])]
    kernel = find_sources([options.kernel_log]) if options.kernel_log else []
    if options.follow:
        from doctor.commands.follow import follow

        return follow([*sources, *kernel], index, question, lambda report: _print(report, options))
    observer = Observer(index)
    try:
        read = sum(_read(source, observer) for source in (*sources, *kernel))
    except KeyboardInterrupt:
        # Ctrl-C ends the server at the other end of the pipe too, and its log is what the user wants explained
        _print(diagnose(index.rules, observer.finish(), question), options)
        raise
    report = diagnose(index.rules, observer.finish(), question)
    if not read and sources:
        _write(report, options)
        raise _nothing_read(sources)
    _print(report, options)
    return exit_code(report, options.fail_on)


def _nothing_read(sources: Sequence[Source]) -> DoctorError:
    names = ", ".join(source.name for source in sources[:3]) + (", …" if len(sources) > 3 else "")
    return DoctorError(
        f"{names}: empty, so there is nothing to diagnose",
        "run the server with 2>&1 | tee server.log and pass that file",
    )


def exit_code(report: Report, fail_on: str) -> int:
    """Give 1 when a cause or a consequence at or above the level was found, whatever the format."""
    levels = _LEVELS[1 : _LEVELS.index(fail_on) + 1]
    found = any(
        item.role in ("root", "alternative", "consequence") and item.severity in levels for item in report.diagnoses
    )
    return int(found)


def _read(source: Source, observer: Observer) -> int:
    """Feed one source; give the number of bytes read. What the user did not name is skipped when it cannot be read."""
    observer.open_file(source.name)
    progress = Progress(source.name, source.size)
    try:
        for block in read_blocks(progress.count(source.open())):
            observer.feed(block)
    except DoctorError as error:
        if source.named:
            raise
        print(f"doctor: skipped {flatten(error.message)}", file=sys.stderr)
    finally:
        progress.end()
        observer.close_file(progress.total)
    return progress.total


def _load_user_rules(folders: Sequence[str]) -> list[Rule]:
    """Load rules of the user's own; a broken one is reported and skipped."""
    if not folders:
        return []
    from doctor.diagnosis.lint import check_user_rules

    rules = []
    for folder in folders:
        good, problems = check_user_rules(Path(folder))
        rules.extend(good)
        for problem in problems:
            print(f"doctor: skipped a rule: {flatten(problem)}", file=sys.stderr)
    return rules


def _check_command(text: str | None) -> str | None:
    """Give the command back when it can be read, with what was mended on stderr; without it the log still answers."""
    if text is None:
        return None
    from doctor.launch.command import parse_command

    try:
        notes = parse_command(text).notes
    except DoctorError as error:
        hint = f"; {flatten(error.hint)}" if error.hint else ""
        print(f"doctor: --command is left out: {flatten(error.message)}{hint}", file=sys.stderr)
        return None
    for note in notes:
        print(f"doctor: --command: {flatten(note)}", file=sys.stderr)
    return text


def _read_response(path: str | None) -> tuple[dict[str, Any], list[Source]]:
    """Measure the model's answer; an error that the server answered with is read like a log instead."""
    if path is None:
        return {}, []
    from doctor.commands.response import read_response_facts
    from doctor.logs.response import ErrorAnswerError

    try:
        return read_response_facts(path), []
    except ErrorAnswerError as error:
        text = error.text.encode()
        print(f"doctor: {path}: {flatten(error.message)}; {error.hint}", file=sys.stderr)
        return {"response.error": error.text}, [Source(path, lambda: iter([text]), len(text))]


def _write(report: Report, options: argparse.Namespace) -> None:
    sys.stdout.write(load_renderer(options.format).render(report, find_target(sys.stdout, os.environ)))
    sys.stdout.flush()


def _print(report: Report, options: argparse.Namespace) -> None:
    """Write the body to stdout and one line to stderr."""
    _write(report, options)
    if options.format != "text" or not sys.stdout.isatty():
        print(summarise(report), file=sys.stderr)

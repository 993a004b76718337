"""`doctor explain`: read logs, diagnose, print."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator, Sequence
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
from doctor.report.interface import Target, load_renderer
from doctor.report.words import summarise

_LEVELS = ("never", "error", "warning")


def explain(options: argparse.Namespace) -> int:
    """Run the subcommand; 1 when something was found, 2 when there was nothing to read."""
    index = Index([*load_pack(), *_load_user_rules(options.rules)])
    question = Question(options.command, _read_response(options.response))
    sources = find_sources(options.files) if options.files or not options.response else []
    kernel = find_sources([options.kernel_log]) if options.kernel_log else []
    if options.follow:
        from doctor.commands.follow import follow

        return follow(sources, index, question, lambda report: _print(report, options))
    observer = Observer(index)
    read = sum(_read(source, observer) for source in (*sources, *kernel))
    report = diagnose(index.rules, observer.finish(), question)
    _print(report, options)
    if not read and sources:
        names = ", ".join(source.name for source in sources)
        raise DoctorError(
            f"{names}: empty, so there is nothing to diagnose",
            "run the server with 2>&1 | tee server.log and pass that file",
        )
    return exit_code(report, options.fail_on)


def exit_code(report: Report, fail_on: str) -> int:
    """Give 1 when a cause or a consequence at or above the level was found, whatever the format."""
    levels = _LEVELS[1 : _LEVELS.index(fail_on) + 1]
    found = any(
        item.role in ("root", "alternative", "consequence") and item.severity in levels for item in report.diagnoses
    )
    return int(found)


def _read(source: Source, observer: Observer) -> int:
    """Feed one source; give the number of bytes read."""
    observer.open_file(source.name)
    total = 0
    with Progress(source.name, source.size) as progress:

        def count(chunks: Iterator[bytes]) -> Iterator[bytes]:
            nonlocal total
            for chunk in chunks:
                total += len(chunk)
                progress.update(total)
                yield chunk

        for block in read_blocks(count(source.open())):
            observer.feed(block)
    observer.close_file(total)
    return total


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
            print(f"doctor: skipped a rule: {problem}", file=sys.stderr)
    return rules


def _read_response(path: str | None) -> dict[str, Any]:
    if path is None:
        return {}
    from doctor.commands.response import read_response_facts

    return read_response_facts(path)


def _print(report: Report, options: argparse.Namespace) -> None:
    """Write the body to stdout and one line to stderr."""
    sys.stdout.write(load_renderer(options.format).render(report, find_target(sys.stdout)))
    sys.stdout.flush()
    if options.format != "text" or not sys.stdout.isatty():
        print(summarise(report), file=sys.stderr)


def find_target(stream: Any) -> Target:
    """Decide once what the stream can show: colour on a terminal, unless NO_COLOR is set or FORCE_COLOR asks for it."""
    terminal = bool(getattr(stream, "isatty", lambda: False)())
    color = (
        (terminal or bool(os.environ.get("FORCE_COLOR")))
        and not os.environ.get("NO_COLOR")
        and os.environ.get("TERM") != "dumb"
    )
    width = min(os.get_terminal_size(stream.fileno()).columns, 120) if terminal else 100
    return Target(width or 100, color)

"""`doctor check`: look at the machine, the Python stack and the launch before the server is started."""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Mapping
from typing import Any

from doctor.errors import DoctorError
from doctor.launch.model import Command
from doctor.probes.base.children import start_clock
from doctor.probes.base.context import Answer, Context, Interpreter
from doctor.probes.base.edits import correct_command
from doctor.probes.base.interpreter import find_interpreter, is_in_container
from doctor.probes.base.launch import find_snapshot, list_model_places, make_launch, overlay, read_command
from doctor.probes.base.observe import OBSERVERS
from doctor.probes.base.result import Result
from doctor.probes.base.runner import (
    PROBE_SECONDS,
    Probe,
    choose_probes,
    list_probes,
    run_in_time,
    run_probes,
    start_observing,
)
from doctor.probes.base.stack import find_version
from doctor.redact import clean
from doctor.report.check_report import (
    CheckReport,
    clean_result,
    compare,
    exit_code,
    load_renderer,
    summarise,
    to_data,
)
from doctor.report.interface import find_target

OBSERVE_SECONDS = 18.0
"""For everything that waits for a child; with the probes' own time the whole stays under 30 s."""

_MAX_SAVED = 8 << 20
_SEARCH_SECONDS = 3.0
"""To find the interpreter: a matter of milliseconds, unless a folder of PATH is on a dead mount."""


def check(options: argparse.Namespace) -> int:
    """Run the subcommand; 1 when there is a problem at or above --fail-on.

    Raises DoctorError for a launch that cannot be read, unknown probe names and unusable files.
    """
    if not sys.platform.startswith("linux"):
        raise DoctorError("doctor check works on Linux only", "doctor explain, plan and rule work here")
    if options.list:
        sys.stdout.write("".join(f"{probe.GROUP:<9}{probe.NAME:<17}{probe.SUMMARY}\n" for probe in list_probes()))
        return 0
    saved = read_saved(options.compare) if options.compare else None
    report = examine(options)
    if saved is not None:
        report = report._replace(differences=compare(saved, report))
    if options.save:
        write_saved(options.save, report)
    write_out(load_renderer(options.format).render(report, find_target(sys.stdout, os.environ)))
    print(f"doctor: {summarise(report)} ({report.seconds:.1f} s)", file=sys.stderr)
    return exit_code(report, options.fail_on)


def write_out(text: str) -> None:
    """Write the body; raises DoctorError when the file behind stdout takes no more (a full disk)."""
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        raise DoctorError(f"standard output: {error.strerror or error}") from error


def split_names(values: list[str]) -> list[str]:
    """Split `--only a,b --only c`."""
    return [name.strip() for value in values for name in value.split(",") if name.strip()]


def examine(options: argparse.Namespace) -> CheckReport:
    """Observe, judge, and put the report together."""
    begin = time.monotonic()
    command = read_command(options.launch, options.model)
    environment = overlay(list_inherited(command), command)
    search = run_in_time(lambda: find_interpreter(options.python, command, environment), _SEARCH_SECONDS)
    python = search or Interpreter(None, "looking for it does not end (a dead file system in --python or PATH?)")
    launch = make_launch(command, None, environment) if command else None
    clock = start_clock(OBSERVE_SECONDS)
    context = Context("/", environment, python, launch, None, options.online, clock, {})
    try:
        chosen, observed = observe(options, context)
        context = settle(context, command, observed)
        results = run_probes(chosen, context)
    except KeyboardInterrupt:
        clock.stop.set()  # children are in groups of their own, so that Ctrl-C did not reach them
        time.sleep(0.2)
        raise
    return make_report(chosen, results, context, time.monotonic() - begin)


def list_inherited(command: Command | None) -> Mapping[str, str]:
    """Return what of this environment a launch would find: all of it, but nothing in a container.

    PATH stays, for the programs that are looked for outside.
    """
    if command is None or not is_in_container(command):
        return os.environ
    return {name: value for name, value in os.environ.items() if name in ("PATH", "HOME")}


def observe(options: argparse.Namespace, context: Context) -> tuple[list[Probe], dict[str, Answer]]:
    """Choose the probes and bring in what they need; children start before the probes' modules are imported."""
    only, skip = split_names(options.only), split_names(options.skip)
    if not only and not skip:
        wait = start_observing(OBSERVERS, context)
        return list_probes(), wait()
    chosen = choose_probes(only, skip)
    return chosen, start_observing({need for probe in chosen for need in probe.NEEDS}, context)()


def make_report(chosen: list[Probe], results: list[Result], context: Context, seconds: float) -> CheckReport:
    """Clean what was found and add the corrected command."""
    python, launch = context.python, context.launch
    corrected = correct_command(launch, results)
    return CheckReport(
        tuple(clean_result(result) for result in results),
        {probe.NAME: probe.GROUP for probe in chosen},
        clean(f"{python.path} ({python.origin})" if python.path else python.origin),
        clean(find_version(context, "sglang") or "") if context.look("python").data is not None else None,
        clean(launch.command.text) if launch else None,
        clean(corrected) if corrected else None,
        seconds,
    )


def settle(context: Context, command: Command | None, observed: Mapping[str, Answer]) -> Context:
    """Return the context with what the observers brought: flags of the installed version, and the model's folder."""
    clock = context.clock._replace(deadline=time.monotonic() + PROBE_SECONDS)
    context = context._replace(observed=observed, clock=clock)
    launch = make_launch(command, find_version(context, "sglang"), context.environment) if command else None
    return context._replace(launch=launch, model=find_model(context))


def find_model(context: Context) -> str | None:
    """Return the model's folder or file when a child could look at it: the path itself, else its place in the cache."""
    found = (context.look("paths").data or {}) if not context.is_outside else {}
    places = list_model_places(context.launch, context.environment)
    for number, path in enumerate(places):
        if found.get(path, {}).get("exists"):
            return path if number == 0 else find_snapshot(path, str(context.value("revision") or "main"))
    return None


def read_saved(path: str) -> Mapping[str, Any]:
    """Read a saved check; raises DoctorError when it is none."""
    hint = "write one with: doctor check --save FILE"
    try:
        with open(path, "rb") as stream:
            data = json.loads(stream.read(_MAX_SAVED + 1)[: _MAX_SAVED + 1])
    except OSError as error:
        raise DoctorError(f"{path}: {error.strerror or error}", hint) from error
    except (ValueError, RecursionError) as error:
        raise DoctorError(f"{path} is not a saved check", hint) from error
    if not isinstance(data, dict) or "results" not in data:
        raise DoctorError(f"{path} is not a saved check", hint)
    return data


def write_saved(path: str, report: CheckReport) -> None:
    """Write the check; raises DoctorError when that fails."""
    try:
        with open(path, "w", encoding="utf-8") as stream:
            json.dump(to_data(report), stream, indent=1)
    except OSError as error:
        raise DoctorError(f"--save {path}: {error.strerror or error}") from error

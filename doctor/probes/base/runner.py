"""Discover the probes, bring in what they need, and run them all without letting one stop or break the others."""

from __future__ import annotations

import importlib
import os
import threading
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Protocol, TypeVar

from doctor.errors import DoctorError
from doctor.probes import list_modules
from doctor.probes.base.context import Answer, Context
from doctor.probes.base.observe import OBSERVERS
from doctor.probes.base.result import Result, make_unknown

T = TypeVar("T")

GROUPS = ("gpu", "python", "host", "network", "tools", "launch")
"""The order in which a report shows them."""

PROBE_SECONDS = 4.0
"""For all probes together once the observers are back: they read small files and compute (0.2 s as measured)."""


class Probe(Protocol):
    """A probe's module; NEEDS names observers.

    INSIDE: it looks at what a container has of its own, so that a launch in one cannot be judged from outside.
    """

    NAME: str
    GROUP: str
    SUMMARY: str
    NEEDS: tuple[str, ...]
    INSIDE: bool

    def probe(self, context: Context) -> Iterator[Result]:
        """Yield one result for each thing looked at."""


def list_probes() -> list[Probe]:
    """Import every module of the folder, in the order of a report."""
    found: list[Probe] = [importlib.import_module(f"doctor.probes.{name}") for name in list_modules()]
    return sorted(found, key=lambda module: (GROUPS.index(module.GROUP), module.NAME))


def choose_probes(only: Collection[str], skip: Collection[str]) -> list[Probe]:
    """Choose probes by their names or groups; raises DoctorError for a name that is neither, and when none is left."""
    everything = list_probes()
    known = {probe.NAME for probe in everything} | set(GROUPS)
    for name in [*only, *skip]:
        if name not in known:
            raise DoctorError(f"there is no probe or group {name[:60]!r}", "doctor check --list names them all")
    chosen = [
        probe
        for probe in everything
        if (not only or {probe.NAME, probe.GROUP} & set(only)) and not {probe.NAME, probe.GROUP} & set(skip)
    ]
    if not chosen:
        raise DoctorError("--only and --skip leave no probe", "doctor check --list names them all")
    return chosen


def start_observing(names: Collection[str], context: Context) -> Callable[[], dict[str, Answer]]:
    """Start observers side by side and return what waits for them.

    One that does not come back within the clock leaves its reason.
    """
    found: dict[str, Answer] = {}
    threads = [start(lambda name=name: found.update({name: observe_one(name, context)})) for name in names]  # type: ignore[misc]

    def wait() -> dict[str, Answer]:
        for thread in threads:
            if thread.is_alive():
                thread.join(context.clock.left + 1)
        late = Answer(None, "it gave no answer in time")
        return {name: found.get(name, late) for name in names}

    return wait


def observe_one(name: str, context: Context) -> Answer:
    """Run one observer; a mistake in it costs its own answer only."""
    try:
        return OBSERVERS[name](context)
    except Exception as error:  # noqa: BLE001 - no observer may end the check
        return Answer(None, describe_bug(error))


def run_probes(chosen: Sequence[Probe], context: Context) -> list[Result]:
    """Run probes side by side and give their results in order."""
    found: dict[str, list[Result]] = {}
    threads = [start(lambda probe=probe: found.update({probe.NAME: run_probe(probe, context)})) for probe in chosen]  # type: ignore[misc]
    deadline = time.monotonic() + PROBE_SECONDS
    for thread in threads:
        while thread.is_alive() and time.monotonic() < deadline and not context.clock.stop.is_set():
            thread.join(0.05)
    return [result for probe in chosen for result in found.get(probe.NAME) or [give_up(probe)]]


def run_probe(probe: Probe, context: Context) -> list[Result]:
    """Run one probe; a mistake in it is a result that says so."""
    results: list[Result] = []
    try:
        if probe.INSIDE and context.is_outside:
            return [make_unknown(probe.NAME, probe.SUMMARY, context.python.origin)]
        results.extend(probe.probe(context))
    except DoctorError as error:
        results.append(make_unknown(probe.NAME, probe.SUMMARY, error.message, (error.hint,) if error.hint else ()))
    except Exception as error:  # noqa: BLE001 - no probe may end the check
        results.append(make_unknown(probe.NAME, probe.SUMMARY, describe_bug(error)))
    return results


def give_up(probe: Probe) -> Result:
    """Say that a probe did not come back."""
    return make_unknown(
        probe.NAME, probe.SUMMARY, f"it did not end within {PROBE_SECONDS:.0f} s (a hanging file system?)"
    )


def start(action: Callable[[], object]) -> threading.Thread:
    """Start a thread that does not keep the process alive; where none may be started, do it here and now.

    Limits on processes (ulimit -u) and on address space (ulimit -v) forbid threads; both are things to report.
    """
    thread = threading.Thread(target=action, daemon=True)
    try:
        thread.start()
    except RuntimeError:
        action()
    return thread


def run_in_time(action: Callable[[], T], seconds: float) -> T | None:
    """Do something that may hang on a dead file system; None when it does. What it raises is raised here."""
    found: list[T] = []
    errors: list[Exception] = []

    def attempt() -> None:
        try:
            found.append(action())
        except Exception as error:  # noqa: BLE001 - raised again below
            errors.append(error)

    thread = start(attempt)
    if thread.is_alive():
        thread.join(seconds)
    if errors:
        raise errors[0]
    return found[0] if found else None


def describe_bug(error: Exception) -> str:
    """Say where one of our own mistakes is, shortly enough for a report."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    place = f" at {os.path.basename(trace.tb_frame.f_code.co_filename)}:{trace.tb_lineno}" if trace else ""
    return f"the doctor made a mistake, please report it: {type(error).__name__}: {error}{place}"[:400]

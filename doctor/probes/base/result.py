"""What a probe says: one result for each thing it looked at."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Literal, NamedTuple

from doctor.launch.edits import Edit

Status = Literal["ok", "problem", "not-applicable", "unknown"]
Severity = Literal["error", "warning", "info"]
SEVERITIES: tuple[Severity, ...] = ("error", "warning", "info")
"""Worst first."""


class Result(NamedTuple):
    """One answer of a probe.

    `severity` counts for problems only: an "error" keeps the server from starting or from serving, a
    "warning" may. `fixes` are commands or sentences to act on, best first; `edits` mend the launch command.
    `reason` completes "could not check because" when the status is unknown. `facts` are pairs of name and
    value for --save and --compare.
    """

    probe: str
    status: Status
    summary: str
    severity: Severity = "info"
    evidence: tuple[str, ...] = ()
    fixes: tuple[str, ...] = ()
    edits: tuple[Edit, ...] = ()
    reason: str = ""
    facts: tuple[tuple[str, str], ...] = ()


def make_ok(probe: str, summary: str, *evidence: str, facts: tuple[tuple[str, str], ...] = ()) -> Result:
    """Say that all is well, with what was seen."""
    return Result(probe, "ok", summary, evidence=evidence, facts=facts)


def make_error(
    probe: str, summary: str, evidence: tuple[str, ...] = (), fixes: tuple[str, ...] = (), edits: tuple[Edit, ...] = ()
) -> Result:
    """Say what will keep the server from starting or serving."""
    return Result(probe, "problem", summary, "error", evidence, fixes, edits)


def make_warning(
    probe: str, summary: str, evidence: tuple[str, ...] = (), fixes: tuple[str, ...] = (), edits: tuple[Edit, ...] = ()
) -> Result:
    """Say what may go wrong."""
    return Result(probe, "problem", summary, "warning", evidence, fixes, edits)


def make_unknown(probe: str, summary: str, reason: str, fixes: tuple[str, ...] = ()) -> Result:
    """Say what could not be checked and why."""
    return Result(probe, "unknown", summary, reason=reason, fixes=fixes)


def add_facts(results: Iterable[Result], facts: Iterable[tuple[str, str]]) -> Iterator[Result]:
    """Put facts on the first of some results: --compare needs them whether or not something is wrong."""
    kept = tuple(facts)
    for result in results:
        yield result._replace(facts=kept + result.facts)
        kept = ()


def make_void(probe: str, summary: str) -> Result:
    """Say why there is nothing to check here."""
    return Result(probe, "not-applicable", summary)

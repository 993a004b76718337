"""A check for a terminal: problems with their fixes first, then what could not be checked, then what is well."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator

from doctor.probes.base.result import Result
from doctor.report.check_report import CheckReport, name_version, summarise
from doctor.report.interface import Target

_CODES = {"error": "1;31", "warning": "1;33", "info": "1", "head": "1", "fix": "1;36", "good": "1;32", "": ""}

Line = tuple[str, str]
"""A style of _CODES and a line."""


def render(report: CheckReport, target: Target) -> str:
    """Write the report, wrapped to the target's width; commands are never broken."""
    lines = list_lines(report, target.width)
    return "".join(f"{paint(style, text) if target.color else text}\n" for style, text in lines)


def paint(style: str, text: str) -> str:
    """Colour a line."""
    code = _CODES[style]
    return f"\x1b[{code}m{text}\x1b[0m" if code and text else text


def list_lines(report: CheckReport, width: int) -> Iterator[Line]:
    """Yield the whole report."""
    problems = report.problems
    worst = problems[0].severity if problems else "info"
    yield ("good" if worst == "info" else worst), f"CHECK: {summarise(report)}"
    yield "", ", ".join(filter(None, [f"Python of the launch: {report.python}", name_version(report)]))
    for problem in problems:
        yield "", ""
        yield from describe_problem(problem, width)
    yield from list_corrected(report)
    yield from list_unknown(report, width)
    yield from list_good(report, width)
    yield from list_differences(report)


def describe_problem(problem: Result, width: int) -> Iterator[Line]:
    """Yield a problem: what, how it shows, what to do."""
    label = {"error": "ERROR", "warning": "warning", "info": "note"}[problem.severity]
    yield from (
        (problem.severity, line) for _, line in wrap(f"{label}: {problem.summary} [{problem.probe}]", width, "", "  ")
    )
    for line in problem.evidence:
        yield from wrap(line, width, "    ", "      ")
    for fix in problem.fixes:
        yield "fix", f"  -> {fix}"


def list_corrected(report: CheckReport) -> Iterator[Line]:
    """Yield the launch as it should be."""
    if report.corrected:
        yield "", ""
        yield "head", "Corrected command"
        yield from (("fix", f"  {line}") for line in report.corrected.splitlines())


def list_unknown(report: CheckReport, width: int) -> Iterator[Line]:
    """Yield what could not be checked, with the reason; what has the same one stands together."""
    groups: dict[tuple[str, tuple[str, ...]], list[Result]] = {}
    for result in report.select("unknown"):
        groups.setdefault((result.reason, result.fixes), []).append(result)
    if groups:
        yield "", ""
        yield "head", "Could not check"
    for (reason, fixes), results in groups.items():
        names = ", ".join(dict.fromkeys(result.probe for result in results))
        what = f"{names}: {results[0].summary}" if len(results) == 1 else names
        yield from wrap(f"{what}: because {reason}", width, "  ", "    ")
        yield from (("fix", f"    -> {fix}") for fix in fixes)


def list_good(report: CheckReport, width: int) -> Iterator[Line]:
    """Yield one line for each thing that is well, and one for all that does not apply."""
    good = report.select("ok")
    if good:
        yield "", ""
        yield "head", "OK"
    for result in good:
        yield from wrap(f"{result.probe}: {result.summary}", width, "  ", "    ")
    void = dict.fromkeys(result.probe for result in report.select("not-applicable"))
    if void:
        yield "", ""
        yield from wrap(f"not applicable here: {', '.join(void)}", width, "", "  ")


def list_differences(report: CheckReport) -> Iterator[Line]:
    """Yield what differs from the saved check."""
    if report.differences is None:
        return
    yield "", ""
    yield "head", f"Differences from the saved check: {len(report.differences) or 'none'}"
    for difference in report.differences:
        yield "", f"  {difference.name}"
        yield "", f"    saved: {difference.saved}"
        yield "", f"    now:   {difference.now}"


def wrap(text: str, width: int, indent: str, following: str) -> Iterator[Line]:
    """Wrap a paragraph without breaking words, so that paths can be copied."""
    for line in textwrap.wrap(
        text,
        width,
        initial_indent=indent,
        subsequent_indent=following,
        break_long_words=False,
        break_on_hyphens=False,
    ):
        yield "", line

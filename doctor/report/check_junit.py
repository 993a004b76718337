"""A check as JUnit XML: one test case for each result, so that a pipeline shows it like a test."""

from __future__ import annotations

from collections.abc import Iterator
from xml.sax.saxutils import escape, quoteattr

from doctor.probes.base.result import Result
from doctor.report.check_report import CheckReport, count
from doctor.report.interface import Target

_ILLEGAL = dict.fromkeys([*range(0x20), *range(0xD800, 0xE000), 0xFFFE, 0xFFFF], "\N{REPLACEMENT CHARACTER}")
"""Characters that XML 1.0 cannot hold; tab, line feed and carriage return can stand."""


def render(report: CheckReport, target: Target) -> str:
    """Write the report; errors and warnings fail, what could not be checked or does not apply is skipped."""
    del target
    counts = count(report)
    failures, skipped = counts["error"] + counts["warning"], counts["unknown"] + counts["not-applicable"]
    head = (
        f'<testsuite name="doctor check" tests="{len(report.results)}" failures="{failures}" errors="0" '
        f'skipped="{skipped}" time="{report.seconds:.3f}">'
    )
    cases = [line for result in report.results for line in describe(result, report.groups.get(result.probe, ""))]
    return "\n".join(['<?xml version="1.0" encoding="UTF-8"?>', head, *cases, "</testsuite>"]) + "\n"


def describe(result: Result, group: str) -> Iterator[str]:
    """Yield one test case."""
    yield f"  <testcase classname={quote(f'{group}.{result.probe}')} name={quote(result.summary)}>"
    if result.status == "problem" and result.severity != "info":
        body = "\n".join([*result.evidence, *(f"-> {fix}" for fix in result.fixes)])
        head = f"<failure type={quote(result.severity)} message={quote(result.summary)}>"
        yield f"    {head}{escape(permit(body))}</failure>"
    elif result.status == "unknown":
        yield f"    <skipped message={quote(f'could not check because {result.reason}')}/>"
    elif result.status == "not-applicable":
        yield '    <skipped message="not applicable"/>'
    yield "  </testcase>"


def quote(text: str) -> str:
    """Write an attribute's value."""
    return quoteattr(permit(text))


def permit(text: str) -> str:
    """Replace what XML cannot hold."""
    table = {number: mark for number, mark in _ILLEGAL.items() if number not in (9, 10, 13)}
    return text.translate(table)

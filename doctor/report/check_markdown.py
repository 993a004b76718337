"""A check for SGLang's bug template: problems, environment and launch, each in a block that can be pasted."""

from __future__ import annotations

import re
from collections.abc import Iterator

from doctor import __version__
from doctor.probes.base.result import Result
from doctor.report.check_report import CheckReport, name_version, summarise, to_data
from doctor.report.interface import Target


def render(report: CheckReport, target: Target) -> str:
    """Write the report; the target does not matter."""
    del target
    return "\n".join(list_lines(report)) + "\n"


def list_lines(report: CheckReport) -> Iterator[str]:
    """Yield the sections that the template asks for."""
    yield f"### SGLang doctor check: {summarise(report)}"
    yield ""
    for problem in report.problems:
        yield from describe_problem(problem)
    if report.command:
        yield "**Reproduction**"
        yield ""
        yield from fence(report.command)
        yield ""
    if report.corrected:
        yield "**Corrected command**"
        yield ""
        yield from fence(report.corrected)
        yield ""
    yield "**Environment**"
    yield ""
    facts = [f"Python: {report.python}", *filter(None, [name_version(report)])]
    facts += [f"{name}: {value}" for name, value in to_data(report)["facts"].items()]
    yield from fence("\n".join(facts))
    yield ""
    yield from list_rest(report)
    yield f"<sub>sglang-doctor {__version__}, {report.seconds:.1f} s</sub>"


def describe_problem(problem: Result) -> Iterator[str]:
    """Yield a problem as a list item with its evidence and fixes in code."""
    yield f"- **{problem.severity}** ({problem.probe}): {escape(problem.summary)}"
    lines = [*problem.evidence, *(f"-> {fix}" for fix in problem.fixes)]
    if lines:
        yield ""
        yield from (f"  {line}" for line in fence("\n".join(lines)))
    yield ""


def list_rest(report: CheckReport) -> Iterator[str]:
    """Yield what could not be checked, what is well, and what differs."""
    for title, rows in (
        ("Could not check", [f"{r.probe}: {r.summary}: because {r.reason}" for r in report.select("unknown")]),
        ("OK", [f"{r.probe}: {r.summary}" for r in report.select("ok")]),
        ("Differences from the saved check", [f"{d.name}: {d.saved} -> {d.now}" for d in report.differences or ()]),
    ):
        if rows:
            yield f"<details><summary>{title} ({len(rows)})</summary>"
            yield ""
            yield from fence("\n".join(rows))
            yield ""
            yield "</details>"
            yield ""


def fence(text: str) -> Iterator[str]:
    """Fence text with more backticks than it holds."""
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    mark = "`" * max(3, longest + 1)
    yield mark + "text"
    yield from text.splitlines()
    yield mark


def escape(text: str) -> str:
    """Keep text from becoming markup, mentions or links."""
    text = re.sub(r"([\\`*_<>\[\]|#])", r"\\\1", text)
    return re.sub(r"@(?=\w)", "@\u200b", text)

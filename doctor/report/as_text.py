"""The report for a terminal; plain ASCII frames, colour only where the target has it."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator

from doctor.diagnosis.model import Diagnosis, Fix, Report
from doctor.redact import flatten
from doctor.report.interface import Target
from doctor.report.words import HEADLINES, SUMMARIES, describe_edit, describe_launch, describe_place, locate

Line = tuple[str, str]
"""A style of `_STYLES` ("" is plain) and a line of text."""

_NOISE = 3
"""Kinds of harmless noise that are named; all of them are in the JSON report."""

_STYLES = {
    "failure": "bold red",
    "healthy": "bold green",
    "incomplete": "bold yellow",
    "unknown": "bold yellow",
    "head": "bold",
    "dim": "dim",
    "command": "bold cyan",
    "evidence": "yellow",
}


def render(report: Report, target: Target) -> str:
    """Write the report, wrapped to the target's width."""
    lines = list(_list_lines(report, max(40, target.width)))
    return _colour(lines) if target.color else "".join(f"{text}\n" for _, text in lines)


def _colour(lines: list[Line]) -> str:
    import io

    from rich.console import Console
    from rich.text import Text

    console = Console(
        file=io.StringIO(), force_terminal=True, color_system="standard", width=100_000, legacy_windows=False
    )
    for style, text in lines:
        console.print(Text(text, _STYLES.get(style, "")), soft_wrap=True, highlight=False)
    written = console.file
    return written.getvalue() if isinstance(written, io.StringIO) else ""


def _list_lines(report: Report, width: int) -> Iterator[Line]:
    root = report.root
    if root:
        yield report.verdict, f"{HEADLINES[report.verdict]}: {flatten(root.title)}"
        yield from _describe_root(report, root, width)
        if root.rule == "GEN001":
            yield from _list_launch(report, width)
    else:
        yield report.verdict, f"{HEADLINES[report.verdict]}: {SUMMARIES[report.verdict]}"
        yield from _list_launch(report, width)
    yield from _list_others(report, width)
    yield from _list_missing(report, width)


def _describe_root(report: Report, root: Diagnosis, width: int) -> Iterator[Line]:
    place = describe_place(report, root)
    yield "dim", f"{root.rule} {root.name}, {root.confidence}" + (f"; {place}" if place else "")
    yield "", ""
    yield from _wrap(root.cause, width, "  ")
    yield from _list_evidence(report, root, width)
    if root.why:
        yield "", ""
        yield "head", "Why"
        yield from _wrap(root.why, width, "  ")
    for number, fix in enumerate(root.fixes, 1):
        yield "", ""
        yield from _describe_fix(number, fix, width)


def _list_evidence(report: Report, item: Diagnosis, width: int) -> Iterator[Line]:
    if not item.evidence:
        return
    yield "", ""
    yield "head", "Evidence"
    for evidence in item.evidence:
        rank = f" [{evidence.rank}]" if evidence.rank else ""
        yield "dim", f"  {locate(report, evidence)}{rank}"
        yield from (("evidence", line) for _, line in _wrap(evidence.text, width, "    "))


def _describe_fix(number: int, fix: Fix, width: int) -> Iterator[Line]:
    note = {"safe": "safe", "review": "review first", "manual": "by hand"}[fix.safety]
    yield "head", f"Fix {number} ({note}): {fix.title}"
    if fix.why:
        yield from _wrap(fix.why, width, "  ")
    if fix.command:
        yield from (("command", f"  {line}") for line in fix.command.splitlines())
    for edit in fix.edits:
        if not fix.command or edit.kind in ("package", "shell"):
            yield "command", f"  {describe_edit(edit)}"
    if fix.verify:
        yield from _wrap(f"Check: {fix.verify}", width, "  ")


def _list_launch(report: Report, width: int) -> Iterator[Line]:
    asked = describe_launch(report)
    if asked:
        yield "", ""
        yield "head", "What this launch asks for"
        yield from _wrap(", ".join(asked), width, "  ")


def _list_others(report: Report, width: int) -> Iterator[Line]:
    noise = [item for item in report.diagnoses if item.role == "benign"]
    others = [item for item in report.diagnoses if item.role not in ("root", "benign")]
    explained = [item for item in noise if item.fixes and report.verdict != "healthy"]
    if others or noise:
        yield "", ""
        yield "head", "Also in this log"
    for item in [*others, *explained]:
        yield from _describe_other(report, item, width)
    rest = [item for item in noise if item not in explained]
    if rest:
        more = f" and {len(rest) - _NOISE} more kinds of noise" if len(rest) > _NOISE else ""
        yield from _wrap(f"harmless: {'; '.join(item.title for item in rest[:_NOISE])}{more}", width, "  ", "    ")


def _describe_other(report: Report, item: Diagnosis, width: int) -> Iterator[Line]:
    labels = {"alternative": "also possible", "consequence": "consequence", "context": "note", "benign": "harmless"}
    place = describe_place(report, item)
    where = f", {locate(report, item.evidence[0])}" if item.evidence else ""
    line = f"{labels[item.role]}: {item.title} ({item.rule}{where}{'; ' + place if place else ''})"
    yield from _wrap(line, width, "  ", "    ")
    if item.role != "consequence":
        yield from _wrap(item.cause, width, "    ")
        yield from _list_short_fixes(item, width)


def _list_short_fixes(item: Diagnosis, width: int) -> Iterator[Line]:
    for fix in item.fixes[:2]:
        what = fix.command or "; ".join(describe_edit(edit) for edit in fix.edits)
        yield from _wrap(f"-> {fix.title}" + (f": {what}" if what else ""), width, "    ", "       ")


def _list_missing(report: Report, width: int) -> Iterator[Line]:
    if report.missing:
        yield "", ""
        yield "head", "To settle it" if report.root else "What to look at next"
    for text in report.missing:
        yield from _wrap(f"- {text}", width, "  ", "    ")


def _wrap(text: str, width: int, indent: str, following: str | None = None) -> Iterator[Line]:
    """Wrap a paragraph; long words (paths, commands) are never broken, so that they can be copied."""
    for paragraph in text.splitlines():
        for line in textwrap.wrap(
            paragraph,
            width,
            initial_indent=indent,
            subsequent_indent=following or indent,
            break_long_words=False,
            break_on_hyphens=False,
        ) or [""]:
            yield "", line

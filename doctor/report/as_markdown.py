"""The report for a GitHub issue; text from the log stands only inside code."""

from __future__ import annotations

import re
from collections.abc import Iterator

from doctor import __version__
from doctor.diagnosis.model import Diagnosis, Fix, Report
from doctor.report.interface import Target
from doctor.report.words import SUMMARIES, describe_edit, describe_launch, describe_place, locate


def render(report: Report, target: Target) -> str:
    """Write the report; the target does not matter."""
    del target
    return "\n".join(_list_blocks(report)) + "\n"


def _list_blocks(report: Report) -> Iterator[str]:
    root = report.root
    yield f"### SGLang doctor: {_escape(root.title) if root else SUMMARIES[report.verdict]}"
    yield ""
    if root:
        yield from _describe_root(report, root)
    asked = describe_launch(report)
    if asked and not root:
        yield f"This launch asks for: {_escape(', '.join(asked))}."
        yield ""
    others = [item for item in report.diagnoses if item is not root]
    if others:
        yield "#### Also in this log"
        yield ""
        for item in others:
            yield f"- {item.role}: {_escape(item.title)} (`{item.rule}`{_place(report, item)})"
        yield ""
    if report.missing:
        yield "#### What to look at next"
        yield ""
        yield from (f"- {_escape(text)}" for text in report.missing)
        yield ""
    if report.command:
        yield f"<details><summary>Launch command ({report.command_source})</summary>"
        yield ""
        yield from _fence(report.command)
        yield ""
        yield "</details>"
        yield ""
    yield f"<sub>sglang-doctor {__version__}, verdict {report.verdict}</sub>"


def _describe_root(report: Report, root: Diagnosis) -> Iterator[str]:
    yield f"`{root.rule}` {root.name}, **{root.confidence}**{_place(report, root)}"
    yield ""
    yield _escape(root.cause)
    yield ""
    if root.evidence:
        yield "Evidence:"
        yield ""
        yield from _fence("\n".join(f"{locate(report, item)}: {item.text}" for item in root.evidence))
        yield ""
    if root.why:
        yield f"Why: {_escape(root.why)}"
        yield ""
    for number, fix in enumerate(root.fixes, 1):
        yield from _describe_fix(number, fix)


def _describe_fix(number: int, fix: Fix) -> Iterator[str]:
    yield f"**Fix {number}** ({fix.safety}): {_escape(fix.title)}"
    yield ""
    if fix.why:
        yield _escape(fix.why)
        yield ""
    code = [fix.command] if fix.command else []
    code += [describe_edit(edit) for edit in fix.edits if not fix.command or edit.kind in ("package", "shell")]
    if code:
        yield from _fence("\n".join(code))
        yield ""
    if fix.verify:
        yield f"Check: {_escape(fix.verify)}"
        yield ""


def _place(report: Report, item: Diagnosis) -> str:
    place = describe_place(report, item)
    return f", {place}" if place else ""


def _fence(text: str) -> Iterator[str]:
    """Fence text with more backticks than it holds."""
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    yield fence + "text"
    yield text
    yield fence


def _escape(text: str) -> str:
    """Keep text from a log from becoming markup, mentions or links."""
    text = re.sub(r"([\\`*_<>\[\]|#~&])", r"\\\1", " ".join(text.splitlines()))
    return re.sub(r"@(?=\w)", "@\u200b", text)

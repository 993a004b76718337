"""Sentences that several formats share."""

from __future__ import annotations

from doctor.diagnosis.model import Diagnosis, Evidence, Report
from doctor.launch.edits import Edit

HEADLINES = {
    "failure": "FAILURE",
    "healthy": "HEALTHY",
    "incomplete": "INCOMPLETE",
    "unknown": "UNKNOWN",
}
SUMMARIES = {
    "failure": "a cause was found",
    "healthy": "nothing in this log points to a failure",
    "incomplete": "the cause is not in this input",
    "unknown": "this does not look like the output of an SGLang server",
}


def summarise(report: Report) -> str:
    """One line for stderr."""
    root = report.root
    name = f": {root.rule} {root.name} ({root.confidence})" if root else f": {SUMMARIES[report.verdict]}"
    return f"doctor: {report.verdict}{name}"


def describe_place(report: Report, item: Diagnosis) -> str:
    """Where it happened: phase, ranks, version; empty parts are left out."""
    parts = []
    if report.phase and item.role == "root":
        parts.append(f"phase {report.phase}")
    if item.ranks:
        shown = ", ".join(item.ranks[:4]) + (f" and {len(item.ranks) - 4} more" if len(item.ranks) > 4 else "")
        parts.append(f"rank {shown}")
    if item.times > 1:
        parts.append(f"{item.times} times")
    if report.sglang_version and item.role == "root":
        parts.append(f"SGLang {report.sglang_version}")
    return ", ".join(parts)


def locate(report: Report, evidence: Evidence) -> str:
    """FILE:LINE of an evidence line."""
    path = report.files[evidence.file].path if evidence.file < len(report.files) else ""
    return f"{path}:{evidence.line}"


def describe_edit(edit: Edit) -> str:
    """Say an edit that no corrected command shows."""
    if edit.kind == "package":
        return f"install {edit.name}{edit.after or ''}"
    if edit.kind == "shell":
        return edit.name
    if edit.after is None:
        return f"unset {edit.name}" if edit.kind == "env" else f"remove {edit.name}"
    if edit.kind == "env":
        return f"{edit.name}={edit.after}"
    return f"{edit.name} {edit.after}".rstrip()

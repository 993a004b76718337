"""The JSON contract, schema version 1."""

from __future__ import annotations

import json
from typing import Any

from doctor import __version__
from doctor.diagnosis.model import Diagnosis, Evidence, Fix, Report
from doctor.launch.edits import Edit
from doctor.report.interface import Target

SCHEMA_VERSION = 1


def render(report: Report, target: Target) -> str:
    """Write the report as one JSON object; the target does not matter."""
    del target
    return json.dumps(as_document(report), ensure_ascii=True, indent=1) + "\n"


def as_document(report: Report) -> dict[str, Any]:
    """Give the report as plain data."""
    paths = [file.path for file in report.files]
    return {
        "schema_version": SCHEMA_VERSION,
        "tool_version": __version__,
        "input": {
            "files": [file._asdict() for file in report.files],
            "sglang_version": report.sglang_version,
            "sglang_version_source": report.version_source,
        },
        "verdict": report.verdict,
        "phase": report.phase,
        "diagnoses": [_diagnosis(item, paths) for item in report.diagnoses],
        "missing": list(report.missing),
        "facts": report.facts,
        "command": {"source": report.command_source, "text": report.command},
    }


def _diagnosis(item: Diagnosis, paths: list[str]) -> dict[str, Any]:
    fields = item._asdict()
    fields["count"] = fields.pop("times")
    return {
        **fields,
        "ranks": list(item.ranks),
        "evidence": [_evidence(evidence, paths) for evidence in item.evidence],
        "fixes": [_fix(fix) for fix in item.fixes],
    }


def _evidence(evidence: Evidence, paths: list[str]) -> dict[str, Any]:
    return {**evidence._asdict(), "file": paths[evidence.file] if evidence.file < len(paths) else ""}


def _fix(fix: Fix) -> dict[str, Any]:
    return {**fix._asdict(), "edits": [_edit(edit) for edit in fix.edits]}


def _edit(edit: Edit) -> dict[str, Any]:
    return {"kind": edit.kind, "name": edit.name, "from": edit.before, "to": edit.after}

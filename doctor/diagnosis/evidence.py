"""Turn hits into the evidence lines of a report."""

from __future__ import annotations

from doctor.diagnosis.findings import Finding
from doctor.diagnosis.match import Hit
from doctor.diagnosis.model import Evidence
from doctor.redact import clean, shorten

EVIDENCE_LINES = 6
"""Evidence lines shown of one finding."""


def list_evidence(finding: Finding) -> tuple[Evidence, ...]:
    """Give the lines that show the finding, without repeats."""
    seen: dict[tuple[int, int], Evidence] = {}
    for hit in finding.hits:
        if hit.line and len(seen) < EVIDENCE_LINES:
            seen.setdefault((hit.record.file, hit.line), make_evidence(hit))
    return tuple(seen.values())


def make_evidence(hit: Hit) -> Evidence:
    """Show one hit's line."""
    return Evidence(
        hit.record.file, hit.line, shorten(clean(hit.text.strip())), hit.record.time, hit.record.rank or None
    )

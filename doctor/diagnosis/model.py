"""What `explain` says: the diagnoses, their evidence and fixes, as the JSON contract names them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from doctor.launch.edits import Edit


class Evidence(NamedTuple):
    """A line of the input, cleaned for display; `file` is the number of the input it stands in."""

    file: int
    line: int
    text: str
    timestamp: str | None
    rank: str | None


class Fix(NamedTuple):
    """One way to fix the problem; `command` is the whole corrected command, or None when no edit changes it."""

    title: str
    safety: str
    edits: tuple[Edit, ...]
    command: str | None
    valid_for: str | None
    why: str
    verify: str


class Diagnosis(NamedTuple):
    """One finding; `role` is root, alternative, consequence, context or benign; `times` is how often it was seen."""

    rule: str
    name: str
    title: str
    role: str
    severity: str
    confidence: str
    ranks: tuple[str, ...]
    times: int
    cause: str
    why: str
    evidence: tuple[Evidence, ...]
    fixes: tuple[Fix, ...]
    recoverable: str


class InputFile(NamedTuple):
    """One input as read; `truncated` when an oversized line lost bytes."""

    path: str
    bytes: int
    records: int
    truncated: bool


class Report(NamedTuple):
    """The answer: verdict (healthy, failure, incomplete, unknown), diagnoses with the root first, what is missing."""

    files: tuple[InputFile, ...]
    sglang_version: str | None
    version_source: str | None
    verdict: str
    phase: str | None
    diagnoses: tuple[Diagnosis, ...]
    missing: tuple[str, ...]
    facts: Mapping[str, Mapping[str, Any]]
    command_source: str | None
    command: str | None

    @property
    def root(self) -> Diagnosis | None:
        """The primary cause, when one was found."""
        return self.diagnoses[0] if self.diagnoses and self.diagnoses[0].role == "root" else None

"""What every output format has in common."""

from __future__ import annotations

import importlib
from typing import NamedTuple, Protocol

from doctor.diagnosis.model import Report
from doctor.errors import DoctorError

FORMATS = ("text", "json", "markdown")


class Target(NamedTuple):
    """What the stream that is written to can show; decided once, by whoever opens it."""

    width: int = 100
    color: bool = False


class Renderer(Protocol):
    """A format module."""

    def render(self, report: Report, target: Target) -> str:
        """Write the report."""


def load_renderer(name: str) -> Renderer:
    """Import the module of a format; raises DoctorError for an unknown one."""
    if name not in FORMATS:
        raise DoctorError(f"unknown format {name!r}", f"choose one of: {', '.join(FORMATS)}")
    module: Renderer = importlib.import_module(f"doctor.report.as_{name}")
    return module

"""What every output format has in common."""

from __future__ import annotations

import importlib
import os
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from doctor.diagnosis.model import Report
from doctor.errors import DoctorError

FORMATS = ("text", "json", "markdown")


class Target(NamedTuple):
    """What the stream that is written to can show: columns, and whether colours are understood."""

    width: int = 100
    color: bool = False


def find_target(stream: Any, environment: Mapping[str, str]) -> Target:
    """Decide once: colour on a terminal, unless NO_COLOR is set or FORCE_COLOR asks for it."""
    terminal = is_terminal(stream)
    wanted = terminal or bool(environment.get("FORCE_COLOR"))
    color = wanted and not environment.get("NO_COLOR") and environment.get("TERM") != "dumb"
    return Target(find_width(stream) if terminal else 100, color)


def is_terminal(stream: Any) -> bool:
    """Tell whether a stream is a terminal; one that is closed or replaced is none."""
    try:
        return bool(stream.isatty())
    except (AttributeError, ValueError):
        return False


def find_width(stream: Any) -> int:
    """Return the columns of a terminal: 40 at least, so that wrapping makes sense, and 120 at most, for reading."""
    try:
        return max(40, min(os.get_terminal_size(stream.fileno()).columns or 100, 120))
    except (OSError, ValueError):
        return 100


class Renderer(Protocol):
    """A format module."""

    def render(self, report: Report, target: Target) -> str:
        """Write the report."""


def load_renderer(name: str) -> Renderer:
    """Import the module of a format; raises DoctorError for an unknown one."""
    module: Renderer = import_format("as", name, FORMATS)
    return module


def import_format(kind: str, name: str, known: Sequence[str]) -> Any:
    """Import `doctor.report.KIND_NAME`; raises DoctorError for a format that is not known."""
    if name not in known:
        raise DoctorError(f"unknown format {name!r}", f"choose one of: {', '.join(known)}")
    return importlib.import_module(f"doctor.report.{kind}_{name}")

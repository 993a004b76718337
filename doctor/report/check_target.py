"""What the stream can show that a check is written to."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, NamedTuple


class Target(NamedTuple):
    """Width in columns, and whether colours are understood."""

    width: int = 100
    color: bool = False


def find_target(stream: Any, environment: Mapping[str, str]) -> Target:
    """Decide once: colour on a terminal, unless NO_COLOR is set or FORCE_COLOR asks for it."""
    terminal = bool(getattr(stream, "isatty", lambda: False)())
    wanted = terminal or bool(environment.get("FORCE_COLOR"))
    color = wanted and not environment.get("NO_COLOR") and environment.get("TERM") != "dumb"
    try:
        width = os.get_terminal_size(stream.fileno()).columns if terminal else 100
    except (OSError, ValueError):
        width = 100
    return Target(max(40, min(width or 100, 120)), color)

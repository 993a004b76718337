"""What the check of a launch command finds."""

from __future__ import annotations

from typing import Literal, NamedTuple

from doctor.launch.edits import Edit


class Problem(NamedTuple):
    """One thing that is wrong with a command.

    `flag` is the flag as typed, or the name of a variable. An "error" keeps the server from starting or from
    doing what was asked; a "warning" does not. `fixes` are edits that make the problem go away together;
    empty when only the user can decide.
    """

    kind: Literal[
        "unknown", "ambiguous", "removed", "deprecated", "duplicate", "type", "choice", "missing", "conflict",
        "environment", "allocator", "devices", "config", "parser",
    ]  # fmt: skip
    severity: Literal["error", "warning"]
    flag: str
    message: str
    fixes: tuple[Edit, ...] = ()

"""One change to a launch: a flag, an environment variable, a package, or a shell command to run by hand."""

from __future__ import annotations

from typing import Literal, NamedTuple


class Edit(NamedTuple):
    """A change, from the value it replaces (None: unknown or absent) to the new one.

    flag: `name` is `--tp-size`; `after` is its value, "" for a flag without one, None to remove the flag.
    env: `name` is a variable; `after` None unsets it. When `before` is None too, the variable comes from
    outside the command (the shell, a container image) and has to be unset in front of the program.
    package and shell: advice in words; they never change a command.
    """

    kind: Literal["flag", "env", "package", "shell"]
    name: str
    before: str | None
    after: str | None

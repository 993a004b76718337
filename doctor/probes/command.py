"""The launch command against the flags of its own version."""

from __future__ import annotations

from collections.abc import Iterator

from doctor.launch.check import check_command
from doctor.launch.edits import Edit
from doctor.probes.base.context import Context, Launch
from doctor.probes.base.result import Result, make_ok, make_void
from doctor.probes.base.stack import find_version

NAME = "command"
GROUP = "launch"
SUMMARY = "the launch command is valid"
NEEDS = ("python",)
INSIDE = False

# Judged by probes of their own, which know the installed torch and the GPUs that are there.
_ELSEWHERE = frozenset({"allocator", "devices"})


def probe(context: Context) -> Iterator[Result]:
    """Yield every problem that the text of the command has."""
    launch = context.launch
    if launch is None:
        yield make_void(NAME, "no launch command was given (doctor check -- COMMAND)")
        return
    problems = [problem for problem in check_command(launch.command, launch.table) if problem.kind not in _ELSEWHERE]
    for problem in problems:
        fixes = tuple(describe_edit(edit) for edit in problem.fixes)
        yield Result(NAME, "problem", problem.message, problem.severity, (problem.flag,), fixes, problem.fixes)
    if not problems:
        yield make_ok(NAME, f"every flag is known to SGLang {describe_version(context, launch)}")
    yield from (make_ok(NAME, f"read as: {note}") for note in launch.command.notes)


def describe_version(context: Context, launch: Launch) -> str:
    """Name the version, and whose flags were used when it has no table."""
    installed = find_version(context, "sglang")
    if installed is None:
        return f"{launch.table.version} (the newest known; none is installed)"
    return installed if launch.table.exact else f"{installed} (judged by the flags of {launch.table.version})"


def describe_edit(edit: Edit) -> str:
    """Write an edit as people would say it."""
    if edit.kind == "env":
        return f"unset {edit.name}" if edit.after is None else f"export {edit.name}={edit.after}"
    if edit.after is None:
        return f"drop {edit.name}"
    return f"{edit.name} {edit.after}".rstrip()

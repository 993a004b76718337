"""Edits of the launch that probes propose, and the command with all of them."""

from __future__ import annotations

from collections.abc import Iterable

from doctor.errors import DoctorError
from doctor.launch.edits import Edit
from doctor.launch.render import apply_edits
from doctor.probes.base.context import Context, Launch
from doctor.probes.base.result import Result


def set_variable(context: Context, name: str, after: str | None) -> Edit:
    """Set a variable, or unset it with None, wherever it comes from: the command or the shell around it."""
    command = context.launch.command if context.launch else None
    given = [item.value for item in command.env if item.name == name] if command else []
    return Edit("env", name, given[-1] if given else None, after)


def correct_command(launch: Launch | None, results: Iterable[Result]) -> str | None:
    """Return the launch with the edits of all problems, None when none of them can be edited away.

    Of several edits of one flag or variable the first counts; one that this version would reject is left out.
    """
    if launch is None:
        return None
    edits: dict[tuple[str, str], Edit] = {}
    for result in results:
        for edit in result.edits:
            if result.status == "problem" and edit.kind in ("flag", "env"):
                edits.setdefault((edit.kind, edit.name), edit)
    text = launch.command.text
    for edit in edits.values():
        text = apply_one(text, edit, launch)
    return text if text != launch.command.text else None


def apply_one(text: str, edit: Edit, launch: Launch) -> str:
    """Apply one edit; the text as it was when it cannot be applied."""
    from doctor.launch.command import parse_command

    try:
        return apply_edits(parse_command(text), [edit], launch.table)
    except DoctorError:
        return text

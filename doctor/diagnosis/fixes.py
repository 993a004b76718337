"""Turn a rule's fix templates into edits and a corrected command that the user's SGLang version accepts."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from doctor.diagnosis.commands import Launch
from doctor.diagnosis.expressions import fill, holds
from doctor.diagnosis.facts import Facts
from doctor.diagnosis.model import Fix
from doctor.diagnosis.rule import EditTemplate, FixTemplate, Rule
from doctor.errors import DoctorError
from doctor.launch.check import check_command
from doctor.launch.command import parse_command
from doctor.launch.edits import Edit
from doctor.launch.flags import Exact, FlagTable
from doctor.launch.render import apply_edits
from doctor.redact import clean

_PLACEHOLDER = re.compile(
    r"…|/path/to\b|/writable/|<[a-z][^>]*>|^N$|^(?:an?|the|your) \w|^namespace/name"
    r"|\b(?:FILE|NAME|HEAD_IP|HEAD_IPV4|PROXY:PORT)\b"
)
"""A value that a person has to fill in: such an edit is shown, but a printed command must run as it is."""


class Bench(NamedTuple):
    """What fixes are made for: the launch, and the flags of the version in use (or the nearest known one)."""

    launch: Launch | None
    table: FlagTable
    version: str | None


def build_fixes(rule: Rule, facts: Facts, bench: Bench) -> tuple[Fix, ...]:
    """Build the fixes whose condition holds, in the rule's order."""
    fixes = (_build_fix(template, facts, bench) for template in rule.fixes if holds(template.when, facts))
    return tuple(fix for fix in fixes if fix is not None)


def _build_fix(template: FixTemplate, facts: Facts, bench: Bench) -> Fix | None:
    """Build one fix; None when the version in use has none of its flags or refuses their values, or nothing changes."""
    wanted = [edit for edit in template.edits if holds(edit.when, facts)]
    edits = [edit for edit in (_build_edit(item, facts, bench) for item in wanted) if edit is not None]
    if any(item.kind == "flag" for item in wanted) and not any(edit.kind == "flag" for edit in edits):
        return None
    command = _render(edits, bench)
    if command and (is_unchanged(command, edits, bench) or is_refused(command, edits, bench)):
        return None
    return Fix(
        clean(fill(template.title, facts)),
        template.safety,
        tuple(edits),
        command,
        bench.version or (bench.table.version if any(edit.kind == "flag" for edit in edits) else None),
        clean(fill(template.why, facts)),
        clean(fill(template.verify, facts)),
    )


def _build_edit(template: EditTemplate, facts: Facts, bench: Bench) -> Edit | None:
    after = None if template.to is None else clean(fill(template.to, facts))
    if template.kind == "flag":
        names = [clean(fill(name, facts)) for name in template.names]
        name = next(
            (name for name in names if isinstance(bench.table.resolve(name), Exact)),
            names[0] if after is None else None,
        )
        return None if name is None else Edit("flag", name, _current(name, facts, bench), after)
    name = clean(fill(template.names[0], facts))
    if template.kind == "env":
        before = facts.get(f"env.{name}")
        return Edit("env", name, None if before is None else str(before), after)
    return Edit("package", name, None, after) if template.kind == "package" else Edit("shell", name, None, after)


def _current(name: str, facts: Facts, bench: Bench) -> str | None:
    flag = bench.table.find(name)
    value = facts.get(f"args.{flag.dest}") if flag else None
    return None if value is None else str(value)


def _render(edits: list[Edit], bench: Bench) -> str | None:
    """Write the corrected command; None without a command, without a change to it, or when it cannot be edited."""
    changes = [edit for edit in edits if edit.kind in ("flag", "env")]
    if bench.launch is None or not changes or any(_PLACEHOLDER.search(edit.after or "") for edit in changes):
        return None
    try:
        return clean(apply_edits(bench.launch.command, changes, bench.table))
    except DoctorError:
        return None


def is_unchanged(command: str, edits: Sequence[Edit], bench: Bench) -> bool:
    """True when the launch is as these edits want it already, and they ask for nothing else.

    A launch with notes was read otherwise than it was typed (dashes from a web page, say), so its text is a correction.
    """
    if bench.launch is None or bench.launch.command.notes:
        return False
    return all(edit.kind in ("flag", "env") for edit in edits) and command == clean(bench.launch.command.text)


def is_refused(command: str, edits: Sequence[Edit], bench: Bench) -> bool:
    """True when the check of launch commands finds an error that the edits bring, or leave in a flag that they set."""
    before = (
        {problem.message for problem in check_command(bench.launch.command, bench.table)} if bench.launch else set()
    )
    set_by_edits = {edit.name for edit in edits if edit.kind == "flag" and edit.after is not None}
    errors = [problem for problem in check_command(parse_command(command), bench.table) if problem.severity == "error"]
    return any(
        problem.message not in before or set_by_edits & {problem.flag, *(edit.name for edit in problem.fixes)}
        for problem in errors
    )

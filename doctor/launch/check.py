"""Check a launch command against a version before an hour of loading finds the same."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import Literal, NamedTuple

from doctor.launch.check_env import check_env
from doctor.launch.check_flags import check_uses, list_stray
from doctor.launch.check_model import check_model
from doctor.launch.conditions import Term, does_apply, holds, list_fields, parse_condition
from doctor.launch.edits import Edit
from doctor.launch.flags import FlagTable
from doctor.launch.model import Command
from doctor.launch.problem import Problem
from doctor.launch.uses import FlagUse, read_uses
from doctor.launch.values import Values, read_values
from doctor.launch.versions import sort_key

# More than this is no launch command; the limit bounds the time that any input can take.
MAX_PROBLEMS = 100
# The cross-argument checks of SGLang's own source, as rows of first version, last version (empty: still),
# condition (doctor/launch/conditions.py), severity (a warning is silently changed, not refused), message, edits
# (`drop --x`, `set --x 1`, `add --x`) and an example of such arguments. All examples were given to the parser
# and the argument checks of 0.5.23 without a GPU, which refused those that do not need one. The versions are
# those of the 17 wheels whose source has the check.
VALIDATIONS = Path(__file__).with_name("validations.json")


class Validation(NamedTuple):
    """One combination of flags that SGLang refuses or silently changes."""

    since: str
    until: str
    terms: tuple[Term, ...]
    severity: Literal["error", "warning"]
    message: str
    fixes: tuple[Edit, ...]
    example: str


def check_command(command: Command, table: FlagTable) -> tuple[Problem, ...]:
    """Return what is wrong with a command, at most MAX_PROBLEMS, errors first, in the order of the command.

    Nothing is looked up outside the text: files, GPUs and models may not exist. Values that depend on a
    variable or a placeholder are taken as right.
    """
    uses = read_uses(command, table)
    values = read_values(uses, table)
    entry = command.entry[-1].value if command.entry else ""
    problems = chain(
        check_uses(uses, table, entry),
        list_stray(uses, table),
        check_config(uses),
        check_validations(uses, values, table),
        check_env(command, values, table),
        check_model(uses, values, table),
    )
    return tuple(sorted(islice(problems, MAX_PROBLEMS), key=lambda problem: problem.severity))


def check_config(uses: Sequence[FlagUse]) -> Iterator[Problem]:
    """Yield the forms of --config that argparse accepts and SGLang never reads.

    `prepare_server_args` looks for the word `--config` itself (srt/server_args.py, since 0.5.4).
    """
    for use in uses:
        if use.dest == "config" and (use.joined or use.typed != "--config"):
            path = use.values[0].value if use.values else ""
            message = f"SGLang ignores the file of {use.typed}{'=' if use.joined else ' '}…: write --config FILE"
            yield Problem("config", "error", use.typed, message, (Edit("flag", "--config", path, path),))


def load_validations() -> tuple[Validation, ...]:
    """Load the table of refused combinations."""
    rows = json.loads(VALIDATIONS.read_text(encoding="utf-8"))
    return tuple(
        Validation(since, until, parse_condition(text), severity, message, read_fixes(fixes), example)
        for since, until, text, severity, message, fixes, example in rows
    )


def read_fixes(text: str) -> tuple[Edit, ...]:
    """Read `drop --x; set --y 1; add --z`."""
    edits = []
    for part in filter(None, text.split("; ")):
        verb, name, *value = part.split()
        after = {"drop": None, "add": "", "set": " ".join(value)}[verb]
        edits.append(Edit("flag", name, None, after))
    return tuple(edits)


def check_validations(uses: Sequence[FlagUse], values: Values, table: FlagTable) -> Iterator[Problem]:
    """Yield the refused combinations in which the command has a part; defaults alone are SGLang's business."""
    version = sort_key(table.version)
    for row in load_validations():
        if version < sort_key(row.since) or (row.until and version > sort_key(row.until)):
            continue
        if not does_apply(row.terms, values) or not all(holds(term, values) for term in row.terms):
            continue
        fields = list_fields(row.terms, values)
        typed = [use.typed for use in uses if use.dest in fields]
        if typed:
            yield Problem("conflict", row.severity, typed[0], row.message, keep_known(row.fixes, table))


def keep_known(fixes: tuple[Edit, ...], table: FlagTable) -> tuple[Edit, ...]:
    """Return the edits when the version has all of their flags, else none."""
    return fixes if all(table.find(edit.name) for edit in fixes) else ()

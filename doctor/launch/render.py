"""Print a command with edits: only the edited pieces change, everything else stays as the user wrote it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from doctor.launch.command import parse_command
from doctor.launch.edits import Edit
from doctor.launch.env_edits import edit_env
from doctor.launch.flags import Exact, Flag, FlagTable, Prefix, UnknownFlagError, load_table
from doctor.launch.model import Command
from doctor.launch.pieces import Splice, apply_splices, gap_before, list_joint, remove_piece, write_words
from doctor.launch.uses import FlagUse, read_uses


class Change(NamedTuple):
    """A flag edit with the uses of the flag that are on the command line already."""

    edit: Edit
    flag: Flag | None
    present: tuple[FlagUse, ...]


def apply_edits(command: Command, edits: Sequence[Edit], table: FlagTable | None) -> str:
    """Return the text of the command with the edits applied, in the user's own form.

    Applying the same edits again changes nothing. Package and shell edits are advice and are ignored. A flag
    that `table` does not know raises UnknownFlagError, unless it is being removed; without a table any flag
    is accepted, and aliases are those of the newest version known.
    """
    for edit in edits:
        if edit.kind == "env":
            command = parse_command(edit_env(command, edit))
    flags = [edit for edit in edits if edit.kind == "flag"]
    known = table or load_table(None)
    uses = read_uses(command, known)
    changes: list[Change] = []
    for edit in flags:
        change = find_change(edit, uses, known, checked=table is not None)
        if edit.after is None:
            uses = tuple(use for use in uses if not change.present or use not in change.present)
        changes.append(change)
    return apply_splices(command.text, list(edit_flags(command, changes)))


def find_change(edit: Edit, uses: Sequence[FlagUse], table: FlagTable, *, checked: bool) -> Change:
    """Find the uses that an edit replaces: of the same flag under any alias, or setting the same field."""
    name = edit.name.partition("=")[0]
    flag = table.find(name)
    if edit.after is None:
        present = [use for use in uses if use.typed == name or (flag and flag in use_flags(use))]
        return Change(edit, flag, tuple(present))
    if flag is None and checked:
        raise UnknownFlagError(
            f"SGLang {table.version} has no flag {name}", hint=f"nearest: {', '.join(table.nearest(name))}"
        )
    present = [use for use in uses if use.typed == name or (flag and flag.dest == use.dest)]
    return Change(edit, flag, tuple(present))


def use_flags(use: FlagUse) -> tuple[Flag, ...]:
    """Return the flag of a use as a tuple, empty when it is unknown or ambiguous."""
    return (use.found.flag,) if isinstance(use.found, Exact | Prefix) else ()


def edit_flags(command: Command, changes: Sequence[Change]) -> Iterator[Splice]:
    """Yield the splices of all flag edits; a removed flag's place goes to the flag added right after it."""
    added: list[tuple[str, ...]] = []
    vacant: FlagUse | None = None
    for change in changes:
        successor = follows(changes, change)
        if change.edit.after is None:
            vacant = change.present[-1] if change.present and successor else None
            yield from (remove_use(command, use) for use in change.present if use is not vacant)
        elif change.present:
            yield from replace_use(command, change)
        elif vacant is not None:
            yield Splice(vacant.start, vacant.end, write_words(command, flag_words(change)))
            vacant = None
        else:
            added.append(flag_words(change))
    if added:
        yield add_flags(command, added)


def follows(changes: Sequence[Change], change: Change) -> bool:
    """Tell whether the next edit adds a flag that is not there yet, so that it can take over a place."""
    at = next(at for at, other in enumerate(changes) if other is change) + 1
    return at < len(changes) and changes[at].edit.after is not None and not changes[at].present


def replace_use(command: Command, change: Change) -> Iterator[Splice]:
    """Yield the splices that give the last use a new value and drop the earlier ones, which it overrode."""
    *earlier, use = change.present
    yield from (remove_use(command, other) for other in earlier)
    words = flag_words(change)
    if is_ignored_form(use):
        yield Splice(use.start, use.end, write_words(command, words))
        return
    keeps_name = not change.flag or (use_flags(use) == (change.flag,) and is_same_form(use, change))
    if use.typed and not keeps_name:
        yield Splice(use.start, use.end, write_words(command, words))
    elif [word.value for word in use.values] != list(words[1:]):
        yield set_values(command, use, words)


def is_same_form(use: FlagUse, change: Change) -> bool:
    """Tell whether the typed name may stay: `--no-x` and `--x` of a toggle mean the opposite."""
    return not use.typed or use.typed.startswith("--no-") == change.edit.name.startswith("--no-")


def is_ignored_form(use: FlagUse) -> bool:
    """Tell `--config=FILE` and `--conf FILE`: SGLang reads the file of the word `--config` alone."""
    return use.dest == "config" and (use.joined or use.typed != "--config")


def set_values(command: Command, use: FlagUse, words: tuple[str, ...]) -> Splice:
    """Replace the values of a use, keeping its name and its `=`."""
    if use.joined and len(words) == 2:
        return Splice(use.start, use.end, write_words(command, (f"{use.typed}={words[1]}",)))
    if use.joined or not use.values:
        return Splice(use.start, use.end, write_words(command, (use.typed, *words[1:])))
    first, last = use.values[0], use.values[-1]
    like = command.text[first.start : first.end]
    if len(words) == 1:
        return Splice(use.start, use.end, write_words(command, (use.typed,)))
    return Splice(first.start, last.end, write_words(command, words[1:], like))


def flag_words(change: Change) -> tuple[str, ...]:
    """Return the name and the values of an edited flag; several values only where the flag takes them."""
    after = change.edit.after or ""
    name, _, joined = change.edit.name.partition("=")
    if change.flag is not None and not change.flag.takes_value:
        return (name,)
    if change.flag is not None and change.flag.takes_many:
        import shlex

        return (name, *shlex.split(after))
    return (name, after or joined) if after or joined else (name,)


def remove_use(command: Command, use: FlagUse) -> Splice:
    """Return the splice that takes out a use."""
    return remove_piece(command, use.start, use.end)


def add_flags(command: Command, flags: Sequence[tuple[str, ...]]) -> Splice:
    """Return the splice that appends flags, each on its own line where the command is written so."""
    layout = command.layout
    gap = find_gap(command) if layout.style == "shell" else list_joint(layout)
    head = gap + write_words(command, ["--"]) if layout.needs_separator else ""
    pieces = [gap + write_words(command, words) for words in flags]
    return Splice(layout.flags_at, layout.flags_at, head + "".join(pieces))


def find_gap(command: Command) -> str:
    """Return what stands between flags: a line break as in front of the others where most have one."""
    names = [word for word in command.arguments if word.value.startswith("--")]
    gaps = [gap_before(command, word.start) for word in names]
    broken = [gap for gap in gaps if "\n" in gap]
    return broken[-1] if len(broken) * 2 >= len(gaps) and broken else " "

"""Group the arguments of a command into flags with their values, the way argparse would."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from doctor.launch.flags import Exact, FlagTable, Prefix, Resolution, Unknown
from doctor.launch.model import Command, Word

# argparse's own idea of a negative number, which is a value and not a flag (3.10 to 3.14).
_NEGATIVE = re.compile(r"-\d+|-\d*\.\d+")


class FlagUse(NamedTuple):
    """One flag on the command line with its values.

    `typed` is the name as written, "" for a word that belongs to none. `joined` tells `--x=y` from `--x y`.
    `text[start:end]` is the source of all of it.
    """

    typed: str
    found: Resolution
    values: tuple[Word, ...]
    joined: bool
    start: int
    end: int

    @property
    def dest(self) -> str | None:
        """The field of ServerArgs that it sets; None for unknown and ambiguous flags."""
        return self.found.flag.dest if isinstance(self.found, Exact | Prefix) else None


def read_uses(command: Command, table: FlagTable) -> tuple[FlagUse, ...]:
    """Return the flags of a command in order; the model that `sglang serve` may begin with is `--model-path`."""
    uses: list[FlagUse] = []
    words = command.arguments
    at = 0
    while at < len(words):
        if at == 0 and is_positional_model(command):
            use = FlagUse(
                "",
                table.resolve("--model-path"),
                words[:1],
                joined=False,
                start=words[0].start,
                end=words[0].end,
            )
        else:
            use = read_use(words, at, table)
        uses.append(use)
        at += len(use.values) + bool(use.typed) - use.joined
    return tuple(uses)


def is_positional_model(command: Command) -> bool:
    """Tell whether the first argument is the model that `sglang serve MODEL` takes (since 0.5.6)."""
    serves = bool(command.entry) and command.entry[-1].value == "serve"
    return serves and not command.arguments[0].value.startswith("-")


def read_use(words: Sequence[Word], at: int, table: FlagTable) -> FlagUse:
    """Read the flag at index `at` with as many values as it takes."""
    first = words[at]
    if is_value(first.value, table):
        return FlagUse("", Unknown(), (first,), joined=False, start=first.start, end=first.end)
    found = table.resolve(first.value)
    typed, equals, value = first.value.partition("=")
    if equals:
        only = first._replace(value=value)
        return FlagUse(typed, found, (only,), joined=True, start=first.start, end=first.end)
    values = list_values(words, at + 1, found, table)
    end = values[-1].end if values else first.end
    return FlagUse(typed, found, values, joined=False, start=first.start, end=end)


def list_values(words: Sequence[Word], at: int, found: Resolution, table: FlagTable) -> tuple[Word, ...]:
    """Return the words from `at` on that are values of a flag; an unknown one gets all up to the next flag."""
    limit = len(words)
    if isinstance(found, Exact | Prefix) and not found.flag.takes_value:
        # `--enable-metrics true`: argparse refuses the word, and it belongs to nothing else
        is_switch_value = at < limit and words[at].value.lower() in {"true", "false"}
        return tuple(words[at : at + is_switch_value])
    if isinstance(found, Exact | Prefix) and not found.flag.takes_many:
        limit = min(limit, at + 1)
    end = at
    while end < limit and is_value(words[end].value, table):
        end += 1
    return tuple(words[at:end])


def is_value(word: str, table: FlagTable) -> bool:
    """Tell whether argparse takes a word for a value: no dash, a negative number, or unknown with a blank."""
    if not word.startswith("-") or word == "-":
        return True
    if not isinstance(table.resolve(word), Unknown):
        return False
    return _NEGATIVE.fullmatch(word) is not None or " " in word

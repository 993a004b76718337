"""The values that a command line gives to the fields of ServerArgs, as far as they can be known from text."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from doctor.launch.flags import Exact, Flag, FlagTable, Prefix
from doctor.launch.uses import FlagUse

# `human_readable_int` of srt/utils/common.py (0.5.12): SI suffixes may have decimals, IEC ones not.
_HUMAN = re.compile(r"(\d+(?:\.\d+)?)(k|M|G|T)|(\d+)(Ki|Mi|Gi|Ti)")
# A word of JSON without its quotes.
_BARE_WORD = re.compile(r"(?<=[{,:\[ ])[A-Za-z_][\w./-]*(?=[ ,:}\]])")
_JSON_WORDS = {"true": "true", "false": "false", "null": "null", "True": "true", "False": "false", "None": "null"}
_SCALES = {"k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12, "Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40}


class Values(NamedTuple):
    """What is given, and the fields whose value depends on a variable, a placeholder or a mistake."""

    given: Mapping[str, Any]
    unknown: frozenset[str]
    table: FlagTable

    def read(self, dest: str) -> Any:
        """Return the given value, else the default, else SGLang's fallback; None when it is chosen later."""
        if dest in self.given:
            return self.given[dest]
        flag = self.table.find_dest(dest)
        return None if flag is None else flag.fallback if flag.default is None else flag.default


def read_values(uses: Sequence[FlagUse], table: FlagTable) -> Values:
    """Read the values of all flags; the last use of a field counts, as in argparse."""
    given: dict[str, Any] = {}
    unknown: set[str] = set()
    for use in uses:
        if not isinstance(use.found, Exact | Prefix):
            continue
        flag = use.found.flag
        try:
            given[flag.dest] = read_use_value(use, flag)
            unknown.discard(flag.dest)
        except ValueError:
            unknown.add(flag.dest)
    return Values(given, frozenset(unknown), table)


def read_use_value(use: FlagUse, flag: Flag) -> Any:
    """Return the value of one use; ValueError when it is none of the flag's type, or not known yet."""
    if not flag.takes_value:
        return flag.const if flag.const is not None else not use.typed.startswith("--no-")
    words = [word.value for word in use.values]
    if not words or any(is_open(word) for word in words):
        raise ValueError(flag.name)
    if flag.const is not None:
        return flag.const
    values = [convert(word, flag.kind) for word in words]
    return values if flag.takes_many else values[0]


def is_open(word: str) -> bool:
    """Tell whether the shell, a template or the reader has to fill something in: `$NAME`, `{{x}}`, `<model>`, `...`."""
    return (
        "$" in word
        or "{{" in word
        or "`" in word
        or word in {"...", "\u2026"}
        or (word[:1] == "<" and word[-1:] == ">")
    )


def convert(word: str, kind: str) -> Any:
    """Convert one value as argparse would; ValueError when argparse would refuse it."""
    if kind == "int":
        return int(word)
    if kind == "float":
        return float(word)
    if kind == "human-int":
        return read_human(word)
    if kind == "json":
        import json

        return json.loads(word)
    return word


def read_human(word: str) -> int:
    """Read `8192`, `128k` (1000) or `128Ki` (1024)."""
    found = _HUMAN.fullmatch(word.strip())
    if found is None:
        return int(word)
    number, suffix = (found[1], found[2]) if found[2] else (found[3], found[4])
    return int(float(number) * _SCALES[suffix])


def repair_json(word: str) -> str | None:
    """Return JSON whose quotes the shell took away, or that has Python's, as JSON again; None when it stays none."""
    import json

    text = word.replace("'", '"')
    text = _BARE_WORD.sub(lambda found: _JSON_WORDS.get(found[0], f'"{found[0]}"'), text)
    try:
        json.loads(text)
    except ValueError:
        return None
    return text

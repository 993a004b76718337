"""Facts about a launch command that argparse refused: which flag, why, and what was probably meant."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from doctor.launch.flags import Exact, FlagTable, Prefix, known_versions, load_table
from doctor.launch.model import Command
from doctor.launch.removed import find_removed
from doctor.launch.synonyms import FOREIGN, find_similar
from doctor.launch.uses import read_uses

_UNKNOWN = re.compile(r"unrecognized arguments: (?P<rest>.+)")
_AMBIGUOUS = re.compile(r"ambiguous option: (?P<flag>\S+) could match (?P<names>.+)")
_CHOICE = re.compile(
    r"argument (?P<flag>\S+): invalid choice: (?P<value>'[^']{0,200}'|\S{1,200}) "
    r"\(choose from (?P<choices>.{1,4000})\)?"
)
_ABOUT_ONE_FLAG = {
    "type": r"argument (?P<flag>\S+): invalid (?P<type>[\w.<>]{1,60}) value: (?P<value>'[^']{0,200}'|\S{1,200})",
    "missing-value": r"argument (?P<flag>\S+): expected (?P<wanted>(?:one|at least one) argument|\d+ arguments?)",
    "explicit": r"argument (?P<flag>\S+): ignored explicit argument (?P<value>'[^']{0,200}')",
    "required": r"the following arguments are required: (?P<flag>[^\s,]+)",
}
"""Messages whose parts are facts as they stand, by kind."""


def find_usage_facts(message: str, table: FlagTable) -> dict[str, Any]:
    """Read argparse's message; every name starts with `usage.`.

    `kind` is misspelt, removed, newer, foreign, underscore, unknown, positional, ambiguous, choice, type,
    missing-value, required, explicit (a value joined to a switch) or other.
    """
    facts = dict(_read_message(message, table))
    facts.setdefault("kind", "other")
    facts["message"] = message[:300]
    return {f"usage.{name}": value for name, value in facts.items() if value is not None}


def _read_message(message: str, table: FlagTable) -> Iterator[tuple[str, Any]]:
    if found := _UNKNOWN.search(message):
        yield from _read_unknown(found["rest"].split(), table)
    elif found := _AMBIGUOUS.search(message):
        yield from _read_ambiguous(found["flag"].partition("=")[0], found["names"], table)
    elif found := _CHOICE.search(message):
        yield from _read_choice(found)
    else:
        yield from _read_plain(message)


def _read_plain(message: str) -> Iterator[tuple[str, Any]]:
    for kind, pattern in _ABOUT_ONE_FLAG.items():
        if found := re.search(pattern, message):
            parts = {name: text.strip("'") for name, text in found.groupdict().items()}
            yield from {**parts, "kind": kind, "flag": _last_name(found["flag"])}.items()
            if kind == "type":
                yield "nearest", _as_number(parts["value"], parts["type"])
            return


def _read_unknown(words: list[str], table: FlagTable) -> Iterator[tuple[str, Any]]:
    flag = next((word for word in words if word.startswith("-")), None)
    if flag is None:
        yield "kind", "positional"
        yield "value", next(iter(words), None)
        return
    name, _, inline = flag.partition("=")
    following = words[words.index(flag) + 1 : words.index(flag) + 2]
    yield "flag", name
    yield "value", inline or next((word for word in following if not word.startswith("-")), None)
    yield "others", len([word for word in words if word.startswith("-")]) - 1
    yield from _explain_unknown(name, table)


def _explain_unknown(name: str, table: FlagTable) -> Iterator[tuple[str, Any]]:
    gone = find_removed(name, table.version)
    dashed = name.replace("_", "-")
    if isinstance(table.resolve(name), Exact):
        # refused by an older release than the table, which is a guess when the version is not known
        yield from {"kind": "newer", "since": find_first_version(name)}.items()
    elif "_" in name and isinstance(table.resolve(dashed), Exact):
        yield from {"kind": "underscore", "nearest": dashed}.items()
    elif gone is not None:
        new = gone.replacement[0] if gone.replacement else None
        yield from {"kind": "removed", "last": gone.last, "replacement": new, "reason": gone.why or None}.items()
        yield "nearest", new
        found = table.find(new) if new else None
        yield "switch", bool(found and not found.takes_value)
    elif name in FOREIGN and (flag := table.find_dest(FOREIGN[name])):
        yield from {"kind": "foreign", "nearest": flag.name}.items()
    elif since := find_first_version(dashed, table.version):
        yield from {"kind": "newer", "since": since}.items()
    else:
        similar = find_similar(name, list(table.options))
        yield "kind", "misspelt" if similar else "unknown"
        yield "nearest", similar[0] if similar else None
        yield "candidates", list(similar)


def find_first_version(name: str, after: str | None = None) -> str | None:
    """Name the first known version (above `after`) that has a flag; None when the oldest known one has it already."""
    versions = known_versions()
    later = versions[versions.index(after) + 1 :] if after in versions else versions
    first = next((version for version in later if isinstance(load_table(version).resolve(name), Exact)), None)
    return None if first == versions[0] else first


def _read_ambiguous(name: str, names: str, table: FlagTable) -> Iterator[tuple[str, Any]]:
    options = [option.strip() for option in names.split(",") if option.strip()]
    gone = find_removed(name, table.version)
    new = gone.replacement[0] if gone and gone.replacement else None
    yield from {"kind": "ambiguous", "flag": name, "candidates": options, "replacement": new}.items()
    telling = [option for option in options if option.endswith(("-backend", "-size", "-path"))]
    yield "nearest", next(iter([*([new] if new else []), *telling, *options]), None)


def _read_choice(found: re.Match[str]) -> Iterator[tuple[str, Any]]:
    choices = [choice.strip(" '\")") for choice in found["choices"].split(",") if choice.strip(" '\")")]
    value = found["value"].strip("'")
    near = _find_choice(value, choices)
    yield from {"kind": "choice", "flag": _last_name(found["flag"]), "value": value, "choices": choices[:40]}.items()
    yield "nearest", near


_DTYPES = {"fp16": "float16", "f16": "float16", "bf16": "bfloat16", "fp32": "float32", "f32": "float32"}


def _find_choice(value: str, choices: list[str]) -> str | None:
    """Find the choice that was meant: another name of it, one with letters exchanged, or the most similar."""
    if _DTYPES.get(value.lower()) in choices:
        return _DTYPES[value.lower()]
    exchanged = (choice for choice in choices if sorted(choice) == sorted(value.lower()))
    near = find_similar(value, choices)
    return next(exchanged, None) or (near[0] if near else _by_stem(value, choices))


def _by_stem(value: str, choices: list[str]) -> str | None:
    """Find a choice that begins like the value: qwen4 is meant as one of qwen, qwen25, qwen3_coder."""
    stem = re.match(r"[A-Za-z]{3,}", value)
    return next((choice for choice in choices if stem and choice.startswith(stem[0])), None)


def _last_name(flag: str) -> str:
    """Argparse joins a flag's aliases with slashes; the first is the name that --help lists first."""
    return flag.rstrip(":").split("/")[0]


_UNITS = {"": 1, "k": 1024, "m": 1024**2}


def _as_number(text: str, kind: str) -> str | None:
    """Read the number that was meant: in words, with a unit, or (for a fraction) as a percentage."""
    words = {"one": 1, "two": 2, "four": 4, "eight": 8, "sixteen": 16, "true": 1, "false": 0}
    if text.lower() in words:
        return str(words[text.lower()])
    if kind == "float":
        percent = re.fullmatch(r"\s*(\d{1,3})\s*%\s*", text)
        comma = re.fullmatch(r"\s*(\d{1,9}),(\d{1,9})\s*", text)
        return f"{int(percent[1]) / 100:g}" if percent else f"{comma[1]}.{comma[2]}" if comma else None
    found = re.match(r"\s*(\d{1,9})\s*([kKmM]?)", text)
    return str(int(found[1]) * _UNITS[found[2].lower()]) if found else None


_DASHES = ("\N{EN DASH}", "\N{EM DASH}")


def find_typed_facts(facts: Mapping[str, Any], command: Command, table: FlagTable) -> dict[str, Any]:
    """Return what argparse's message leaves out and the user's command shows.

    The value of an ambiguous flag, the switch in front of a stray `true`, and the flag (with its value in
    `usage.nearest`) whose hyphens became a dash.
    """
    uses = read_uses(command, table)
    if facts.get("usage.kind") == "ambiguous":
        values = (use.values[0].value for use in uses if use.typed == facts.get("usage.flag") and use.values)
        return {"usage.value": next(values, None)}
    if facts.get("usage.kind") == "positional":
        word = str(facts.get("usage.value"))
        if word.startswith(_DASHES):
            # the parsed command has hyphens already
            name = "--" + word.lstrip("".join(_DASHES))
            values = (use.values[0].value for use in uses if use.typed == name and use.values)
            return {"usage.flag": name, "usage.nearest": next(values, "")}
        switches = (use for use in uses if isinstance(use.found, Exact | Prefix) and not use.found.flag.takes_value)
        return {"usage.flag": next((use.typed for use in switches if [v.value for v in use.values] == [word]), None)}
    return {}

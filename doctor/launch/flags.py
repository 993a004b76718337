"""The command-line flags of each SGLang version, and argparse's way of finding the one that was meant."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, NamedTuple

from doctor.errors import DoctorError
from doctor.launch.removed import find_removed
from doctor.launch.synonyms import FOREIGN, find_similar
from doctor.launch.versions import sort_key

# Written by tools/flag_tables.py from the wheels.
TABLES = Path(__file__).with_name("flags")

ValueKind = Literal["str", "int", "float", "json", "human-int", "flag", "toggle", "help"]


class Flag(NamedTuple):
    """One flag as `add_argument` declares it.

    `kind` is the type of one value; "flag" takes none and sets `const` (True when that is None), "toggle"
    takes none and has a `--no-` form among its aliases. `fallback` is what SGLang uses in the end when the
    default is None and nothing else sets it. `replaced_by` is what SGLang's own deprecation notice names: a
    flag, or `--flag=value`.
    """

    name: str
    aliases: tuple[str, ...]
    dest: str
    kind: ValueKind
    nargs: str | None
    choices: tuple[Any, ...]
    default: Any
    fallback: Any
    const: Any
    required: bool
    deprecated: bool
    replaced_by: str | None

    @property
    def takes_value(self) -> bool:
        """Whether anything follows the flag."""
        return self.kind not in {"flag", "toggle", "help"}

    @property
    def takes_many(self) -> bool:
        """Whether several values may follow the flag."""
        return self.nargs in {"+", "*"}


class Exact(NamedTuple):
    """A flag typed in full."""

    flag: Flag


class Prefix(NamedTuple):
    """An abbreviation of one flag only; `option` is the full name that argparse takes it for."""

    flag: Flag
    option: str


class Ambiguous(NamedTuple):
    """An abbreviation of several flags: argparse refuses it, and lists these names."""

    options: tuple[str, ...]


class Unknown(NamedTuple):
    """Not a flag of this version."""


Resolution = Exact | Prefix | Ambiguous | Unknown


class FlagTable(NamedTuple):
    """All flags of one version; `exact` is False when the version asked for has no table of its own."""

    version: str
    exact: bool
    flags: tuple[Flag, ...]
    options: Mapping[str, Flag]
    setters: Mapping[str, Flag]
    """By the field of ServerArgs that they set; where several do, rather one that is not deprecated."""

    def resolve(self, name: str) -> Resolution:
        """Find the flag for a word of the command line, `--name` or `--name=value`, exactly as argparse does.

        CPython's argparse, 3.10 to 3.14, with allow_abbrev: the whole word, then the part before `=`, then a
        prefix of exactly one option string. Several matching names of the same flag are ambiguous too.
        """
        typed = name.partition("=")[0]
        for candidate in (name, typed):
            if candidate in self.options:
                return Exact(self.options[candidate])
        if not typed.startswith("--") or typed == "--":
            return Unknown()
        found = tuple(option for option in self.options if option.startswith(typed))
        if len(found) == 1:
            return Prefix(self.options[found[0]], found[0])
        return Ambiguous(found) if found else Unknown()

    def find(self, name: str) -> Flag | None:
        """Return the flag that argparse takes the word for, or None."""
        found = self.resolve(name)
        return found.flag if isinstance(found, Exact | Prefix) else None

    def find_dest(self, dest: str) -> Flag | None:
        """Return the flag that sets a field of ServerArgs, rather the one that is not deprecated."""
        return self.setters.get(dest)

    def default(self, dest: str) -> Any:
        """Return the default of a field of ServerArgs, before SGLang resolves it; None for unknown fields."""
        flag = self.find_dest(dest)
        return flag.default if flag is not None else None

    def nearest(self, name: str) -> tuple[str, ...]:
        """Return up to three flags of this version that `name` may stand for, best first.

        Knows the names that other servers use, what replaced a removed flag, and other dashes and capitals.
        """
        typed = name.partition("=")[0]
        meant = self.find_dest(FOREIGN.get(typed.replace("_", "-"), ""))
        gone = find_removed(typed, self.version)
        known = [meant.name] if meant else []
        known += [new for new in (gone.replacement if gone else ()) if self.find(new)]
        plain = self.find("--" + typed.strip("-:,").lower().replace("_", "-"))
        known += [plain.name] if plain and not known else []
        return tuple(known) or find_similar(typed, self.options)


class UnknownFlagError(DoctorError):
    """A flag that this version would reject was about to be printed."""


def known_versions() -> tuple[str, ...]:
    """Return the versions that have a table, oldest first."""
    return tuple(sorted((path.stem for path in TABLES.glob("*.json")), key=sort_key))


def load_table(version: str | None) -> FlagTable:
    """Load the table of `version`, else of the nearest older version, else of the oldest; newest for None."""
    known = known_versions()
    if version is None or not sort_key(version):
        return read_table(known[-1], exact=False)
    older = [candidate for candidate in known if sort_key(candidate) <= sort_key(version)]
    chosen = older[-1] if older else known[0]
    return read_table(chosen, exact=sort_key(chosen) == sort_key(version))


def read_table(version: str, *, exact: bool) -> FlagTable:
    """Read the table of a version that is known to have one."""
    rows = json.loads((TABLES / f"{version}.json").read_text(encoding="utf-8"))
    flags = tuple(read_flag(name, row) for name, row in rows.items())
    options = {option: flag for flag in flags for option in (flag.name, *flag.aliases)}
    usual = {flag.dest: flag for flag in reversed(flags) if not flag.deprecated}
    setters = {flag.dest: flag for flag in reversed(flags)} | usual
    return FlagTable(version, exact, flags, options, setters)


def read_flag(name: str, row: Mapping[str, Any]) -> Flag:
    """Fill in what the table leaves out because it is usual."""
    return Flag(
        name=name,
        aliases=tuple(row.get("aliases", ())),
        dest=row.get("dest", name[2:].replace("-", "_")),
        kind=row.get("type", "str"),
        nargs=row.get("nargs"),
        choices=tuple(row.get("choices", ())),
        default=row.get("default"),
        fallback=row.get("fallback"),
        const=row.get("const"),
        required=row.get("required", False),
        deprecated=row.get("deprecated", False),
        replaced_by=row.get("replaced_by"),
    )

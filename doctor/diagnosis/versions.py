"""Read the `applies` ranges of rules, and recognise a version from the fields of a `server_args` dump."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable

from doctor.launch.flags import TABLES, known_versions
from doctor.launch.versions import sort_key


def is_within(version: str | None, applies: str) -> bool:
    """True when the version satisfies every part of a range such as ">=0.5.4,<0.5.19"; unknown versions always do."""
    key = sort_key(version) if version else ()
    return not key or all(_satisfies(key, part.strip()) for part in applies.split(",") if part.strip())


def _satisfies(key: tuple[int, ...], part: str) -> bool:
    found = re.fullmatch(r"(>=|<=|==|<|>)\s*(\S+)", part)
    other = sort_key(found[2]) if found else ()
    if found is None or not other:
        raise ValueError(f"not a version range: {part}")
    return {">=": key >= other, "<=": key <= other, "==": key == other, "<": key < other, ">": key > other}[found[1]]


def recognise_version(names: Iterable[str], *, options: bool = False) -> str | None:
    """Find the newest known version whose flags fit a dump's fields (or a usage text's options) best.

    Every release adds flags, so a whole dump fits one release, or two with the same flags. None below 90 % agreement.
    """
    seen = set(names)
    best, score = None, 0.0
    for version in known_versions():
        known = _read_names(version, options=options)
        overlap = len(seen & known) / max(len(seen | known), 1)
        if overlap >= score:
            best, score = version, overlap
    return best if score >= 0.9 else None


def _read_names(version: str, *, options: bool) -> set[str]:
    rows = json.loads((TABLES / f"{version}.json").read_text("utf-8"))
    return {name if options else row.get("dest", name[2:].replace("-", "_")) for name, row in rows.items()}

"""Compare versions and requirements of Python distributions without the `packaging` package."""

from __future__ import annotations

import re
from collections.abc import Mapping

_RELEASE = re.compile(r"v?(\d{1,9}(?:\.\d{1,9}){0,5})")
_STAGE = re.compile(r"[._-]?(dev|a|alpha|b|beta|rc|post)[._-]?(\d{0,9})")
_ORDER = {"dev": -4, "a": -3, "alpha": -3, "b": -2, "beta": -2, "rc": -1, "": 0, "post": 1}
_REQUIREMENT = re.compile(r"\s*([A-Za-z0-9._-]+)\s*(\[[^\]]{0,200}\])?\s*\(?([^;)]{0,200})\)?\s*(?:;\s*(.{0,500}))?")
_CLAUSE = re.compile(r"\s*(===|==|~=|!=|<=|>=|<|>)\s*([^\s,]+)\s*")
_COMPARISON = re.compile(r"""([a-z_]+)\s*(==|!=|>=|<=|<|>|not in|in)\s*["']([^"']{0,80})["']""")


def order_version(text: str) -> tuple[tuple[int, ...], int, int]:
    """Return a key that orders versions as PEP 440 does for releases and their stages; local parts are ignored."""
    plain = text.strip().lower().partition("+")[0]
    release = _RELEASE.match(plain)
    if release is None:
        return (), 0, 0
    numbers = [int(part) for part in release[1].split(".")]
    while numbers and numbers[-1] == 0:
        numbers.pop()
    stage = _STAGE.match(plain, release.end())
    name = stage[1] if stage else ""
    return tuple(numbers), _ORDER[name], int(stage[2] or 0) if stage else 0


def satisfies(version: str, specifier: str) -> bool:
    """Tell whether a version fulfils clauses such as `==2.11.0` or `>=0.14.1,<0.15`; unreadable ones count as met."""
    clauses = [_CLAUSE.fullmatch(clause) for clause in specifier.split(",") if clause.strip()]
    return all(meets(version, clause[1], clause[2]) for clause in clauses if clause)


def meets(version: str, operator: str, wanted: str) -> bool:
    """Tell whether a version fulfils one clause."""
    if wanted.endswith(".*"):
        release, start = order_version(version)[0], order_version(wanted[:-2])[0]
        same = release[: len(start)] == start
        return same if operator == "==" else not same
    have, want = order_version(version), order_version(wanted)
    if operator == "~=":
        return have >= want and have[0][: len(want[0]) - 1] == want[0][:-1]
    return {
        "==": have == want,
        "===": version == wanted,
        "!=": have != want,
        "<=": have <= want,
        ">=": have >= want,
        "<": have < want,
        ">": have > want,
    }[operator]


def split_requirement(text: str) -> tuple[str, str, str, str]:
    """Return name, extras, specifier and marker of a Requires-Dist line; the name is in its plain form."""
    match = _REQUIREMENT.fullmatch(text.strip())
    if match is None:
        return "", "", "", ""
    name = re.sub(r"[-_.]+", "-", match[1]).lower()
    return name, match[2] or "", match[3].strip(), (match[4] or "").strip()


def applies(marker: str, environment: Mapping[str, str]) -> bool:
    """Tell whether a marker holds; `and`, `or` and one level of brackets are understood, extras never hold."""
    if not marker:
        return True
    inner = re.sub(r"\(([^()]*)\)", lambda found: "T" if is_any(found[1], environment) else "F", marker)
    return is_any(inner, environment)


def is_any(marker: str, environment: Mapping[str, str]) -> bool:
    """Evaluate a marker without brackets."""
    return any(all(holds(term, environment) for term in side.split(" and ")) for side in marker.split(" or "))


def holds(term: str, environment: Mapping[str, str]) -> bool:
    """Evaluate one comparison; a variable that is not known makes it false."""
    if term.strip() in ("T", "F"):
        return term.strip() == "T"
    match = _COMPARISON.search(term)
    if match is None or match[1] not in environment:
        return False
    have, operator, want = environment[match[1]], match[2], match[3]
    if operator in ("in", "not in"):
        return (have in want) == (operator == "in")
    if match[1].startswith("python"):
        return meets(have, operator, want)
    return (have == want) == (operator == "==") if operator in ("==", "!=") else False

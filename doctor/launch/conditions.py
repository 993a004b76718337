"""A small language for conditions over the fields of ServerArgs; it is parsed and compared, never evaluated.

`enable_mixed_chunk and speculative_algorithm is set`, `tp_size * pp_size % nnodes != 0`, `not use_ray`,
`schedule_policy not in fcfs|lof`. A term is a field, `not` field, `is set`, `is none`, `has` text, `in` words,
or a comparison of numbers and fields joined by `*` and `%` from left to right.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any, NamedTuple

from doctor.launch.values import Values

_COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
}


class Term(NamedTuple):
    """One part of a condition: what is looked at, how, and with what it is compared."""

    left: tuple[str, ...]
    relation: str
    right: tuple[str, ...]


def parse_condition(text: str) -> tuple[Term, ...]:
    """Split a condition into its terms; all of them must hold."""
    return tuple(parse_term(part.split()) for part in text.split(" and "))


def parse_term(words: list[str]) -> Term:
    """Parse one term."""
    if words[0] == "not":
        return Term((words[1],), "not", ())
    if len(words) == 1:
        return Term((words[0],), "yes", ())
    if words[1] in {"is", "has"}:
        return Term((words[0],), "has" if words[1] == "has" else f"is {words[2]}", tuple(words[2:]))
    if words[1] in {"in", "not"}:
        relation = "in" if words[1] == "in" else "not in"
        return Term((words[0],), relation, tuple(words[-1].split("|")))
    at = next(at for at, word in enumerate(words) if word in _COMPARE)
    return Term(tuple(words[:at]), words[at], tuple(words[at + 1 :]))


def list_fields(terms: tuple[Term, ...], values: Values) -> list[str]:
    """Return the fields that the terms look at, in order."""
    sides = [(*term.left, *(term.right if term.relation in _COMPARE else ())) for term in terms]
    words = [word for side in sides for word in side]
    return [word for word in words if values.table.find_dest(word) is not None]


def does_apply(terms: tuple[Term, ...], values: Values) -> bool:
    """Tell whether the version has all fields that the terms begin with, and their values are known."""
    names = [word for term in terms for word in term.left if word.isidentifier()]
    return all(values.table.find_dest(name) is not None and name not in values.unknown for name in names)


def holds(term: Term, values: Values) -> bool:
    """Tell whether a term holds. A value that SGLang chooses later is neither small nor large nor set."""
    if term.relation in _COMPARE:
        left, right = compute(term.left, values), compute(term.right, values)
        if left is None or right is None:
            return term.relation == "!=" and right is not None and len(term.left) == 1
        return is_comparable(left, right) and _COMPARE[term.relation](left, right)
    value = values.read(term.left[0])
    tests = {
        "yes": bool(value),
        "not": not value,
        "is set": value not in (None, [], ""),
        "is none": value in (None, [], ""),
        "has": value is not None and any(text in str(value) for text in term.right),
        "in": value in term.right,
        "not in": value not in term.right,
    }
    return tests[term.relation]


def compute(words: tuple[str, ...], values: Values) -> Any:
    """Compute an operand: a field, a number or a word, or several joined by `*` and `%`; None if unknown."""
    result = read_operand(words[0], values)
    for sign, word in zip(words[1::2], words[2::2], strict=True):
        other = read_operand(word, values)
        if not isinstance(result, int | float) or not isinstance(other, int | float) or not other:
            return None
        result = result * other if sign == "*" else result % other
    return result


def read_operand(word: str, values: Values) -> Any:
    """Return the value of a field, else the number or text itself."""
    if values.table.find_dest(word) is not None:
        return None if word in values.unknown else values.read(word)
    try:
        return float(word) if "." in word else int(word)
    except ValueError:
        return word


def is_comparable(left: Any, right: Any) -> bool:
    """Tell whether two values can be ordered: both numbers, or both text."""
    return isinstance(left, int | float) == isinstance(right, int | float)

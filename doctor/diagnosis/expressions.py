"""Expressions over facts in rules: a small whitelist of operators, read with `ast` and never evaluated by Python.

Names are dotted facts (`args.tp_size`, `mem.before_load`) or captures of the pattern. A fact that is not known is None;
an ordered comparison or arithmetic with None is None, which counts as false. `x is None` asks for it.
"""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Mapping
from typing import Any

from doctor.launch.versions import sort_key

_BINARY: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}
_ORDER: dict[type[ast.cmpop], Callable[[Any, Any], bool]] = {
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}
_PURE: dict[str, Callable[..., Any]] = {
    "min": min,
    "max": max,
    "round": round,
    "int": int,
    "float": float,
    "len": len,
    "abs": abs,
    "lower": lambda text: str(text).lower(),
    "version": lambda text: sort_key(str(text)) or None,
    "clamp": lambda value, low, high: max(low, min(value, high)),
    "join": lambda items: ", ".join(map(str, items)),
    "numbers": lambda count: ",".join(str(index) for index in range(min(int(count), 64))),
    "replace": lambda text, old, new: str(text).replace(str(old), str(new)),
    "basename": lambda path: str(path).rstrip("/").rpartition("/")[2],
    "matches": lambda text, pattern: re.search(pattern, str(text)[:2000]) is not None,
}
"""Functions that rules may call; None among the arguments gives None."""


class ExpressionError(ValueError):
    """The expression is not in the whitelist (found by the linter, so never at run time for shipped rules)."""


def evaluate(text: str, facts: Mapping[str, Any]) -> Any:
    """Evaluate an expression; unknown names are None. Raises ExpressionError for anything not allowed."""
    return _evaluate(parse_expression(text), facts)


def holds(text: str, facts: Mapping[str, Any]) -> bool:
    """True when the condition is empty or evaluates to something true."""
    return not text or bool(evaluate(text, facts))


def parse_expression(text: str) -> ast.expr:
    """Parse and bound an expression (500 characters)."""
    if len(text) > 500:
        raise ExpressionError(f"longer than 500 characters: {text[:60]}…")
    try:
        # a backslash is a backslash, as in TOML's literal strings, so that patterns need no doubling
        return ast.parse(text.strip().replace("\\", "\\\\"), mode="eval").body
    except (SyntaxError, ValueError, RecursionError) as error:
        raise ExpressionError(f"{text}: {error}") from error


def check_expression(text: str) -> None:
    """Raise ExpressionError unless every part of an expression is on the whitelist, also parts that a run may skip."""
    for node in ast.walk(parse_expression(text)):
        if isinstance(node, ast.Call):
            if not (isinstance(node.func, ast.Name) and node.func.id in _PURE) or node.keywords:
                raise ExpressionError(f"not a function of rules: {ast.unparse(node)}")
        elif (isinstance(node, ast.BinOp) and type(node.op) not in _BINARY) or (
            isinstance(node, ast.UnaryOp) and not isinstance(node.op, ast.Not | ast.USub)
        ):
            raise ExpressionError(f"not an operator of rules: {ast.unparse(node)}")
        elif isinstance(node, ast.Attribute):
            _dotted(node)
        elif isinstance(node, ast.expr) and not isinstance(node, _ALLOWED):
            raise ExpressionError(f"not allowed in a rule: {ast.unparse(node)}")


_ALLOWED = (
    ast.Constant, ast.Name, ast.Attribute, ast.BoolOp, ast.UnaryOp, ast.BinOp, ast.Compare, ast.IfExp, ast.Tuple,
    ast.List,
)  # fmt: skip


def list_names(text: str) -> set[str]:
    """Names of facts that an expression reads."""
    tree = parse_expression(text)
    called = {id(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}
    inner = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    nodes = (node for node in ast.walk(tree) if isinstance(node, ast.Name | ast.Attribute))
    return {_dotted(node) for node in nodes if id(node) not in called and id(node) not in inner}


def _evaluate(node: ast.expr, facts: Mapping[str, Any]) -> Any:
    if isinstance(node, ast.Constant):
        return node.value
    if isinstance(node, ast.Name | ast.Attribute):
        return facts.get(_dotted(node))
    if isinstance(node, ast.BoolOp):
        return _evaluate_bool(node, facts)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not | ast.USub):
        value = _evaluate(node.operand, facts)
        return not value if isinstance(node.op, ast.Not) else _combine(operator.sub, 0, value)
    if isinstance(node, ast.BinOp) and type(node.op) in _BINARY:
        return _combine(_BINARY[type(node.op)], _evaluate(node.left, facts), _evaluate(node.right, facts))
    if isinstance(node, ast.Compare):
        return _compare(node, facts)
    if isinstance(node, ast.IfExp):
        return _evaluate(node.body if _evaluate(node.test, facts) else node.orelse, facts)
    if isinstance(node, ast.Tuple | ast.List):
        return [_evaluate(item, facts) for item in node.elts]
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in _PURE and not node.keywords:
        return _call(_PURE[node.func.id], [_evaluate(argument, facts) for argument in node.args])
    raise ExpressionError(f"not allowed in a rule: {ast.unparse(node)}")


def _evaluate_bool(node: ast.BoolOp, facts: Mapping[str, Any]) -> Any:
    value: Any = None
    for item in node.values:
        value = _evaluate(item, facts)
        if bool(value) == isinstance(node.op, ast.Or):
            return value
    return value


def _combine(function: Callable[[Any, Any], Any], left: Any, right: Any) -> Any:
    numbers = isinstance(left, int | float) and isinstance(right, int | float)
    if not numbers and function not in (operator.add, operator.contains, *_ORDER.values()):
        return None  # a text from a log times a number from a log may fill the memory
    try:
        return None if left is None or right is None else function(left, right)
    except (TypeError, ZeroDivisionError, OverflowError, ValueError):
        return None


def _compare(node: ast.Compare, facts: Mapping[str, Any]) -> bool:
    left = _evaluate(node.left, facts)
    for op, side in zip(node.ops, node.comparators, strict=True):
        right = _evaluate(side, facts)
        if not _compare_pair(op, left, right):
            return False
        left = right
    return True


def _compare_pair(op: ast.cmpop, left: Any, right: Any) -> bool:
    if isinstance(op, ast.Eq | ast.Is):
        return bool(left == right)
    if isinstance(op, ast.NotEq | ast.IsNot):
        return bool(left != right)
    if isinstance(op, ast.In | ast.NotIn):
        found = left is not None and right is not None and bool(_combine(operator.contains, right, left))
        return found == isinstance(op, ast.In)
    return bool(_combine(_ORDER[type(op)], left, right))


def _call(function: Callable[..., Any], arguments: list[Any]) -> Any:
    if any(argument is None for argument in arguments):
        return None
    try:
        return function(*arguments)
    except (TypeError, ValueError, OverflowError, re.error):
        return None


def _dotted(node: ast.expr) -> str:
    if isinstance(node, ast.Attribute):
        return f"{_dotted(node.value)}.{node.attr}"
    if isinstance(node, ast.Name):
        return node.id
    raise ExpressionError(f"not allowed in a rule: {ast.unparse(node)}")


_LONGEST_VALUE = 2000
_HOLE = re.compile(r"\{([^{}]{1,300}?)(?::([^{}:'\" ]{1,8}))?\}")


def fill(template: str, facts: Mapping[str, Any]) -> str:
    """Replace every `{expression}` or `{expression:format}`; what is not known or not allowed reads "unknown"."""
    return _HOLE.sub(lambda found: _fill_hole(found, facts), template)


def list_holes(template: str) -> list[str]:
    """Expressions inside a template."""
    return [found[1] for found in _HOLE.finditer(template)]


def _fill_hole(found: re.Match[str], facts: Mapping[str, Any]) -> str:
    try:
        value = evaluate(found[1], facts)
    except ExpressionError:
        return "unknown"  # one bad hole must not cost the report
    if value is None:
        return "unknown"
    try:
        text = format(value, found[2] or "")
    except (TypeError, ValueError, OverflowError):
        text = str(value)
    return text if len(text) <= _LONGEST_VALUE else f"{text[:_LONGEST_VALUE]}…"

"""Evaluate constant expressions of SGLang's source without importing it: names, enums, imports, list sums."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple


class UnresolvedError(Exception):
    """An expression whose value only exists at run time."""


class Scope(NamedTuple):
    """One module of the package, as far as constants are concerned."""

    package: Path
    tree: ast.Module
    names: dict[str, ast.AST]
    # Fields of ServerArgs: their default expression and the module that it stands in.
    defaults: dict[str, tuple[ast.expr | None, Scope]]

    def with_locals(self, function: ast.FunctionDef) -> Scope:
        """Return the scope that the body of `function` sees."""
        return self._replace(names={**self.names, **dict(list_names(function))})


def open_scope(package: Path, path: Path) -> Scope:
    """Parse a module of the package."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return Scope(package, tree, dict(list_names(tree)), {})


def list_names(tree: ast.AST) -> Iterator[tuple[str, ast.AST]]:
    """Yield what assignments, definitions and imports bind, also inside `if` and `try`, last binding last."""
    for node in getattr(tree, "body", []):
        if isinstance(node, ast.Assign):
            yield from ((name.id, node.value) for name in node.targets if isinstance(name, ast.Name))
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.value:
            yield node.target.id, node.value
        elif isinstance(node, ast.ClassDef | ast.FunctionDef):
            yield node.name, node
        elif isinstance(node, ast.ImportFrom):
            yield from ((alias.asname or alias.name, node) for alias in node.names)
        elif isinstance(node, ast.If | ast.Try):
            yield from list_names(node)


def evaluate(node: ast.AST, scope: Scope) -> Any:
    """Return the value of a constant expression; enum members evaluate to their values."""
    for kind, read in READERS.items():
        if isinstance(node, kind):
            return read(node, scope)
    raise UnresolvedError(ast.unparse(node)[:100])


def read_sequence(node: ast.List | ast.Tuple | ast.Set, scope: Scope) -> Any:
    """Evaluate a list, tuple or set display; starred items are spliced in."""
    values: list[Any] = []
    for item in node.elts:
        starred = isinstance(item, ast.Starred)
        value = evaluate(item.value if isinstance(item, ast.Starred) else item, scope)
        values += value if starred else [value]
    return set(values) if isinstance(node, ast.Set) else values


def read_dict(node: ast.Dict, scope: Scope) -> dict[Any, Any]:
    """Evaluate the keys of a dict display; the values stay expressions' text unless they are constants."""
    return {
        evaluate(key, scope): value.value if isinstance(value, ast.Constant) else ast.unparse(value)
        for key, value in zip(node.keys, node.values, strict=True)
        if key is not None
    }


def read_sum(node: ast.BinOp, scope: Scope) -> Any:
    """Evaluate `+`, `*` and `|` of constants."""
    left, right = evaluate(node.left, scope), evaluate(node.right, scope)
    if isinstance(node.op, ast.Add):
        return list(left) + list(right) if isinstance(left, list | set) else left + right
    if isinstance(node.op, ast.Mult):
        return left * right
    if isinstance(node.op, ast.BitOr):
        return left | right
    raise UnresolvedError(ast.unparse(node))


def read_name(node: ast.Name, scope: Scope) -> Any:
    """Evaluate a name bound in the module or in the one it is imported from."""
    target = scope.names.get(node.id)
    if target is None:
        raise UnresolvedError(node.id)
    if isinstance(target, ast.ImportFrom):
        name, source = follow_import(node.id, target, scope)
        return evaluate(ast.Name(name), source)
    return evaluate(target, scope)


def follow_import(name: str, node: ast.ImportFrom, scope: Scope) -> tuple[str, Scope]:
    """Return the original name and the module that `from module import name` takes it from."""
    parts = (node.module or "").split(".")
    if parts[0] != "sglang":
        raise UnresolvedError(f"{name} of {node.module}")
    original = next(alias.name for alias in node.names if (alias.asname or alias.name) == name)
    base = scope.package.joinpath(*parts[1:])
    for path in (base.with_suffix(".py"), base / "__init__.py"):
        if path.is_file():
            return find_definition(original, open_scope(scope.package, path))
    raise UnresolvedError(f"{name} of {node.module}")


def find_definition(name: str, scope: Scope) -> tuple[str, Scope]:
    """Look through `from x import *` when the module itself does not bind the name."""
    if name in scope.names or "*" not in scope.names:
        return name, scope
    star = scope.names["*"]
    if not isinstance(star, ast.ImportFrom):
        raise UnresolvedError(name)
    return follow_import(name, ast.ImportFrom(star.module, [ast.alias(name)], 0), scope)


def read_attribute(node: ast.Attribute, scope: Scope) -> Any:
    """Evaluate `ServerArgs.field`, `Class.CONSTANT`, `member.name` or `sys.maxsize` (of 64 bits)."""
    if ast.unparse(node) == "sys.maxsize":
        return 2**63 - 1
    if ast.unparse(node.value) in {"ServerArgs", "cls"}:
        return read_field_default(node.attr, scope)
    owner, where = find_class(node.value, scope)
    value = dict(list_names(owner)).get(node.attr)
    if value is None:
        raise UnresolvedError(ast.unparse(node))
    return evaluate(value, where._replace(names={**where.names, **dict(list_names(owner))}))


def read_field_default(name: str, scope: Scope) -> Any:
    """Evaluate the default of a field of ServerArgs."""
    default, where = scope.defaults.get(name, (None, scope))
    return None if default is None else evaluate(default, where)


def find_class(node: ast.expr, scope: Scope) -> tuple[ast.ClassDef, Scope]:
    """Return the class that a name stands for, and its module."""
    name, where = ast.unparse(node).split(".")[-1], scope
    target = scope.names.get(name)
    while isinstance(target, ast.ImportFrom):
        name, where = follow_import(name, target, where)
        target = where.names.get(name)
    if not isinstance(target, ast.ClassDef):
        raise UnresolvedError(name)
    return target, where


def read_call(node: ast.Call, scope: Scope) -> Any:
    """Evaluate the few calls that stand in declarations."""
    called = ast.unparse(node.func)
    if called.endswith("field"):
        factory = next((word.value for word in node.keywords if word.arg == "default_factory"), None)
        return read_factory(factory, scope)
    if called == "_declared_default":
        return read_field_default(ast.literal_eval(node.args[0]), scope)
    if called in {"list", "sorted", "set", "frozenset", "tuple"}:
        return list(evaluate(node.args[0], scope)) if node.args else []
    if called.endswith(".keys") and isinstance(node.func, ast.Attribute):
        return list(evaluate(node.func.value, scope))
    function = scope.names.get(called)
    if isinstance(function, ast.FunctionDef):
        return read_function(function, scope)
    raise UnresolvedError(called)


def read_factory(factory: ast.expr | None, scope: Scope) -> Any:
    """Evaluate what `default_factory=` makes: a lambda's body, or an empty container."""
    if isinstance(factory, ast.Lambda):
        return evaluate(factory.body, scope)
    return {"list": [], "dict": {}}.get(ast.unparse(factory)) if factory is not None else None


def read_function(function: ast.FunctionDef, scope: Scope) -> Any:
    """Evaluate what the last statement of a function returns."""
    last = function.body[-1]
    if not isinstance(last, ast.Return) or last.value is None:
        raise UnresolvedError(function.name)
    return evaluate(last.value, scope.with_locals(function))


def read_enum_names(node: ast.ListComp, scope: Scope) -> list[str]:
    """Evaluate `[m.name.lower() for m in SomeEnum]`, the only comprehension that declarations use."""
    if not ast.unparse(node.elt).endswith(".name.lower()"):
        raise UnresolvedError(ast.unparse(node))
    source, where = node.generators[0].iter, scope
    if isinstance(source, ast.Call):
        function = scope.names.get(ast.unparse(source.func))
        if not isinstance(function, ast.FunctionDef):
            raise UnresolvedError(ast.unparse(node))
        source, where = read_listed(function), scope.with_locals(function)
    owner, _ = find_class(source, where)
    return [name.lower() for name, _ in list_names(owner)]


def read_listed(function: ast.FunctionDef) -> ast.expr:
    """Return `X` of a function that ends in `return list(X)`."""
    last = function.body[-1]
    if isinstance(last, ast.Return) and isinstance(last.value, ast.Call):
        return last.value.args[0]
    raise UnresolvedError(function.name)


READERS: dict[type[ast.AST] | tuple[type[ast.AST], ...], Callable[[Any, Scope], Any]] = {
    ast.Constant: lambda node, _: node.value,
    ast.UnaryOp: lambda node, scope: -evaluate(node.operand, scope),
    (ast.List, ast.Tuple, ast.Set): read_sequence,
    ast.Dict: read_dict,
    ast.BinOp: read_sum,
    ast.Subscript: lambda node, scope: evaluate(node.value, scope)[ast.literal_eval(node.slice)],
    ast.Name: read_name,
    ast.Attribute: read_attribute,
    ast.Call: read_call,
    ast.ListComp: read_enum_names,
}

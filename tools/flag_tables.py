"""Read the flags of SGLang versions from their wheels into `doctor/launch/flags/<version>.json`.

A new version: `python tools/flag_tables.py 0.5.24`. Nothing of SGLang is imported or executed: flags are
declared by `add_argument` calls (all versions), by annotated fields of `ServerArgs` (0.5.15 to 0.5.19) or
by annotated fields of `srt/arg_groups/fields/*.py` (0.5.21 on), and all three are read from the syntax tree.
"""

from __future__ import annotations

import argparse
import ast
import json
import re
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).parent))

from flag_source import Scope, UnresolvedError, evaluate, open_scope

TABLES = Path(__file__).parent.parent / "doctor" / "launch" / "flags"
PIP_DOWNLOAD = [
    *(sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:"),
    # since 0.5.12 the wheel is for one Python and Linux only; any of them declares the same flags
    *("--python-version", "3.12", "--platform", "manylinux_2_34_x86_64", "--platform", "any"),
]
# Names of `type=` callables, as the table spells what they accept.
TYPES = {
    "nullable_str": "str",
    "json.loads": "json",
    "json_list_type": "json",
    "parse_cuda_graph_config_arg": "json",
    "parse_cuda_graph_backend_arg": "str",
    "human_readable_int": "human-int",
}


class Declaration(NamedTuple):
    """One `add_argument` call or annotated field, before its expressions are evaluated."""

    names: list[str]
    dest: str
    annotation: str
    keywords: dict[str, ast.expr]
    default: ast.expr | None
    is_field: bool


def write_table(version: str, cache: Path) -> Path:
    """Write the table of one version, with its wheel unpacked into `cache` (downloaded if missing)."""
    flags = read_flags(unpack_wheel(version, cache) / "sglang")
    lines = ",\n".join(f"{json.dumps(name)}: {json.dumps(flags[name])}" for name in sorted(flags))
    path = TABLES / f"{version}.json"
    path.write_text(f"{{\n{lines}\n}}\n", encoding="utf-8")
    print(f"{version}: {len(flags)} flags")
    return path


def unpack_wheel(version: str, cache: Path) -> Path:
    """Return the folder with the unpacked wheel of `version`; the wheel itself is deleted again."""
    folder = cache / version
    if not (folder / "sglang").is_dir():
        wheels = cache / "wheel"
        subprocess.run([*PIP_DOWNLOAD, "--dest", str(wheels), f"sglang=={version}"], check=True)
        wheel = next(wheels.glob(f"sglang-{version}-*.whl"))
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(folder)
        wheel.unlink()
    return folder


def read_flags(package: Path) -> dict[str, dict[str, Any]]:
    """Return every flag declared by the unpacked package: first name to its properties."""
    scope = open_scope(package, package / "srt" / "server_args.py")
    fields = list(list_fields(package, scope))
    defaults = {item.dest: (item.default, where) for item, where in fields}
    scope = scope._replace(defaults=defaults)
    flags = {"--help": {"aliases": ["-h"], "type": "help"}}
    renamed = read_renames(scope)
    for given, where in [*fields, *list_calls(scope)]:
        declaration = given._replace(dest=renamed.get(given.dest, given.dest))
        if declaration.names and not is_hidden(declaration):
            flags[declaration.names[0]] = describe_flag(declaration, where._replace(defaults=defaults))
    return flags


def read_renames(scope: Scope) -> dict[str, str]:
    """Return the fields that `from_cli_args` fills from an argument of another name (up to 0.5.12)."""
    functions = [node for node in ast.walk(scope.tree) if isinstance(node, ast.FunctionDef)]
    body = [node for function in functions if function.name == "from_cli_args" for node in function.body]
    pairs = [(node.targets[0], node.value) for node in body if isinstance(node, ast.Assign)]
    return {
        source.attr: target.attr
        for target, source in pairs
        if isinstance(target, ast.Attribute) and isinstance(source, ast.Attribute)
    }


def is_hidden(declaration: Declaration) -> bool:
    """Tell whether the field takes part in the record only, without a flag of its own."""
    hidden = declaration.keywords.get("no_cli")
    return isinstance(hidden, ast.Constant) and bool(hidden.value)


def list_fields(package: Path, scope: Scope) -> Iterator[tuple[Declaration, Scope]]:
    """Yield the annotated fields that become flags, with the module they stand in.

    Plain fields of old versions come too, without names: they hold the defaults that the calls refer to.
    """
    groups = sorted((package / "srt" / "arg_groups" / "fields").glob("*.py"))
    scopes = [scope, *(open_scope(package, path) for path in groups)]
    for where in scopes:
        classes = [node for node in where.tree.body if isinstance(node, ast.ClassDef)]
        wanted = [node for node in classes if where is not scope or node.name == "ServerArgs"]
        for node in (field for owner in wanted for field in owner.body):
            if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
                yield read_field(node.target.id, node), where


def read_field(name: str, node: ast.AnnAssign) -> Declaration:
    """Read `name: A[type, Arg(...)] = default`, or a plain field, which has no flag."""
    annotation = node.annotation
    is_flag = isinstance(annotation, ast.Subscript) and ast.unparse(annotation.value) in {"A", "Annotated"}
    if not is_flag or not isinstance(annotation, ast.Subscript):
        return Declaration([], name, ast.unparse(annotation), {}, node.value, is_field=True)
    if not isinstance(annotation.slice, ast.Tuple):
        raise UnresolvedError(f"{name}: one-argument annotation")
    kind, *metadata = annotation.slice.elts
    calls = [item for item in metadata if isinstance(item, ast.Call) and ast.unparse(item.func) == "Arg"]
    keywords = {word.arg: word.value for call in calls for word in call.keywords if word.arg}
    helps = [item for item in metadata if isinstance(item, ast.Constant | ast.JoinedStr)]
    keywords |= {"help": helps[0]} if helps and not calls else {}
    names = [literal(keywords["cli_name"]) if "cli_name" in keywords else f"--{name.replace('_', '-')}"]
    names += literal(keywords["aliases"]) if "aliases" in keywords else []
    return Declaration(names if calls or helps else [], name, ast.unparse(kind), keywords, node.value, is_field=True)


def list_calls(scope: Scope) -> Iterator[tuple[Declaration, Scope]]:
    """Yield the explicit `parser.add_argument(...)` calls of `ServerArgs`, in the order of the source."""
    for function in ast.walk(scope.tree):
        if isinstance(function, ast.FunctionDef) and function.name == "add_cli_args":
            local = scope.with_locals(function)
            calls = [node for node in ast.walk(function) if isinstance(node, ast.Call)]
            calls = [node for node in calls if ast.unparse(node.func).endswith(".add_argument")]
            yield from ((read_call(node), local) for node in sorted(calls, key=lambda node: node.lineno))


def read_call(node: ast.Call) -> Declaration:
    """Read one `add_argument` call."""
    names = [literal(argument) for argument in node.args]
    keywords = {word.arg: word.value for word in node.keywords if word.arg}
    dest = literal(keywords["dest"]) if "dest" in keywords else default_dest(names[0])
    return Declaration(names, dest, "", keywords, keywords.get("default"), is_field=False)


def describe_flag(flag: Declaration, scope: Scope) -> dict[str, Any]:
    """Return the properties of one flag, without those that have their usual value."""
    kind, nargs = read_kind(flag, scope)
    negations = [f"--no-{name[2:]}" for name in flag.names] if kind == "toggle" else []
    deprecated, replaced_by = read_deprecation(flag)
    properties = {
        "aliases": (flag.names[1:] + negations) or None,
        "dest": flag.dest if flag.dest != default_dest(flag.names[0]) else None,
        "type": kind if kind != "str" else None,
        "nargs": nargs,
        "choices": read_choices(flag, scope),
        "default": read_default(flag, kind, scope),
        "fallback": constant(flag.keywords.get("fallback"), scope),
        "const": constant(flag.keywords.get("const_value", flag.keywords.get("const")), scope),
        "required": is_required(flag) or None,
        "deprecated": deprecated or None,
        "replaced_by": replaced_by,
    }
    return {name: value for name, value in properties.items() if value is not None and (value or name != "aliases")}


def read_kind(flag: Declaration, scope: Scope) -> tuple[str, str | None]:
    """Return what one value of the flag is, and argparse's `nargs`."""
    action = ast.unparse(flag.keywords["action"]).strip("'\"") if "action" in flag.keywords else ""
    nargs = constant(flag.keywords.get("nargs"), scope, {"None": None})
    if action == "LoRAPathAction":
        return "str", "*" if flag.is_field else nargs
    if action in {"store_true", "DeprecatedStoreTrueAction", "DeprecatedAction"}:
        return "flag", None
    if action == "DeprecatedStoreConstAction":
        return ("str", None) if "nargs" in flag.keywords else ("flag", None)
    if action.endswith("BooleanOptionalAction"):
        return "toggle", None
    parser = flag.keywords.get("type_parser", flag.keywords.get("type"))
    if parser is not None or not flag.is_field:
        name = ast.unparse(parser) if parser is not None else "str"
        return TYPES.get(name, name), nargs
    return read_annotation(flag.annotation, nargs)


def read_annotation(annotation: str, nargs: str | None) -> tuple[str, str | None]:
    """Return the value type that SGLang's `add_cli_args_from_dataclass` derives from an annotation."""
    kind = annotation.removeprefix("Optional[").removesuffix("]").removesuffix(" | None").strip()
    if kind.lower().startswith("list["):
        return plain_type(kind[len("list[") :].removesuffix("]")), nargs or "+"
    if kind == "bool":
        return "flag", None
    if kind.startswith("Literal["):
        return plain_type(type(literal_values(kind)[0]).__name__), nargs
    return plain_type(kind), nargs


def literal_values(annotation: str) -> list[Any]:
    """Return the values of `Literal["a", "b"]`."""
    return list(ast.literal_eval(f"[{annotation.rstrip(']')[len('Literal[') :]}]"))


def plain_type(name: str) -> str:
    """Return `int` or `float`, else `str`, as argparse would be told."""
    return name if name in {"int", "float"} else "str"


def read_choices(flag: Declaration, scope: Scope) -> list[Any] | None:
    """Return the allowed values; None when there are none or they only exist at run time."""
    node = flag.keywords.get("choices")
    literals = flag.annotation.removeprefix("Optional[")
    if node is None and literals.startswith("Literal["):
        return literal_values(literals)
    values = constant(node, scope)
    return sorted(values, key=str) if isinstance(values, set | frozenset) else values and list(values)


def read_default(flag: Declaration, kind: str, scope: Scope) -> Any:
    """Return the default; None also where argparse has none."""
    if flag.default is None and kind == "flag" and "const_value" not in flag.keywords:
        return False
    default = constant(flag.default, scope)
    return list(default) if isinstance(default, tuple | set | frozenset) else default


def read_deprecation(flag: Declaration) -> tuple[bool, str | None]:
    """Return whether the flag is deprecated, and the flag (perhaps with a value) named instead."""
    action = ast.unparse(flag.keywords["action"]) if "action" in flag.keywords else ""
    help_node = flag.keywords.get("help", flag.keywords.get("error_message"))
    words = ast.unparse(help_node).lower() if help_node is not None else ""
    deprecated = action.startswith("Deprecated") or any(mark in words[:40] for mark in ("deprecated", "note: --"))
    if "new_flag" in flag.keywords:
        return deprecated, literal(flag.keywords["new_flag"])
    named = re.search(r"\b(?:use|for) '?(--[\w-]+(?:=\w+)?)", words)
    return deprecated, named.group(1) if deprecated and named else None


def is_required(flag: Declaration) -> bool:
    """Tell whether argparse refuses a command line without the flag."""
    required = flag.keywords.get("required")
    if required is not None:
        return bool(literal(required))
    return flag.is_field and flag.default is None


def default_dest(name: str) -> str:
    """Return the attribute name that argparse derives from a flag."""
    return name.lstrip("-").replace("-", "_")


def literal(node: ast.expr) -> Any:
    """Evaluate a literal expression."""
    return ast.literal_eval(node)


def constant(node: ast.expr | None, scope: Scope, special: dict[str, Any] | None = None) -> Any:
    """Evaluate an expression of the source; None when there is none or its value is not constant."""
    if node is None or ast.unparse(node) in (special or {"argparse.SUPPRESS": None}):
        return None
    try:
        return json.loads(json.dumps(evaluate(node, scope), default=sorted))
    except UnresolvedError as error:
        print(f"  not constant: {error}", file=sys.stderr)
        return None


def run() -> None:
    """Write one table for each version on the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("versions", nargs="+", metavar="VERSION")
    parser.add_argument("--cache", type=Path, default=Path("build/wheels"), help="for unpacked wheels")
    options = parser.parse_args()
    for version in options.versions:
        write_table(version, options.cache)


if __name__ == "__main__":
    run()

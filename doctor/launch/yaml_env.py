"""Read the environment next to a command in YAML, and find where a new variable goes."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from doctor.launch.model import Assignment, EnvPlace
from doctor.launch.yaml_text import Line, Node, Scalar, column_of, line_end, match_key, read_scalar, split_items

# One entry of `{A: 1, "B": "2"}`.
_ENTRY = re.compile(r"""[{,]\s*["']?(?P<name>\w+)["']?\s*:\s*(?P<value>"[^"\n]*"|'[^'\n]*'|[^,}\n]*)""")


def find_env_place(node: Node) -> EnvPlace | None:
    """Return where and how a variable is added, None when the key is there and empty or has another form."""
    if node.kind == "flow":
        return EnvPlace("brackets", node.scalars[0].start if node.scalars else node.end - 1)
    if is_braced(node):
        return EnvPlace("braces", node.scalars[0].start + 1)
    if node.kind in {"empty", "scalar"}:
        return None
    style = "map" if node.kind == "map" else "named" if is_named(node) else "list"
    return EnvPlace(style, node.end, node.indent)  # type: ignore[arg-type]  # three of the literals


def is_braced(node: Node) -> bool:
    """Tell whether the variables stand in braces on one line."""
    return node.kind == "scalar" and node.scalars[0].value.startswith("{")


def read_environment(text: str, node: Node) -> Iterator[Assignment]:
    """Yield the variables of an `environment:` map or list, or of a Kubernetes `env:` list."""
    if node.kind == "flow":
        yield from (found for item in node.scalars if (found := read_item(text, item)))
    elif is_braced(node):
        yield from read_braces(text, node.scalars[0])
    elif node.kind == "map":
        yield from (found for line in node.lines if (found := read_map_line(text, line)))
    elif is_named(node):
        yield from read_named(text, node)
    else:
        yield from (found for item in node.scalars if (found := read_pair(text, item)))


def read_braces(text: str, scalar: Scalar) -> Iterator[Assignment]:
    """Yield the variables of `{A: 1, B: "2"}`, each with the comma behind it."""
    for found in _ENTRY.finditer(text, scalar.start, scalar.end):
        end = found.end() + text.startswith(",", found.end())
        value = found["value"].strip()
        start = found.start("value")
        yield Assignment(found["name"], value.strip("\"'"), found.start() + 1, end, start, start + len(value), "map")


def read_item(text: str, item: Scalar) -> Assignment | None:
    """Read one item of `[A=1, "B=2"]`, with the comma behind it."""
    name, equals, value = item.value.partition("=")
    end = item.end + text.startswith(",", item.end)
    return Assignment(name, value, item.start, end, item.start, item.end, "list") if equals and name else None


def is_named(node: Node) -> bool:
    """Tell a Kubernetes list of `- name: NAME` items from a list of `NAME=value`."""
    return any(match_key(line) is not None for line in node.lines)


def read_map_line(text: str, line: Line) -> Assignment | None:
    """Read `NAME: value`."""
    key = match_key(line)
    if key is None:
        return None
    end = min(line.end + 1, len(text))
    if not key.rest:
        return Assignment(key.name, None, line.start, end, line.end, line.end, "map")
    value = read_scalar(text, line.end - len(key.rest), stops="\n")
    return Assignment(key.name, value.value, line.start, end, value.start, value.end, "map")


def read_pair(text: str, item: Scalar) -> Assignment | None:
    """Read `- NAME=value`, or `- NAME`, which passes a variable through."""
    name, equals, value = item.value.partition("=")
    start = text.rfind("\n", 0, item.start) + 1
    end = min(line_end(text, item.end) + 1, len(text))
    return Assignment(name, value if equals else None, start, end, item.start, item.end, "list") if name else None


def read_named(text: str, node: Node) -> Iterator[Assignment]:
    """Yield the variables of `- name: NAME` items; those without a `value:` get theirs from elsewhere."""
    for lines in split_items(node.lines, node.indent):
        found = read_named_item(text, lines)
        if found:
            yield found


def read_named_item(text: str, lines: Sequence[Line]) -> Assignment | None:
    """Read one `- name: NAME` item; where there is no `value:`, all of it would be replaced."""
    column = column_of(lines[0])
    keys = ((match_key(line), line.end) for line in lines)
    ends = {key.name: (key.rest, end) for key, end in keys if key and key.column == column}
    name = ends.get("name", ("", 0))[0].strip("\"' ")
    rest, line_stop = ends.get("value", ("", 0))
    start, end = lines[0].start, min(lines[-1].end + 1, len(text))
    if rest:
        value = read_scalar(text, line_stop - len(rest), stops="\n")
        return Assignment(name, value.value, start, end, value.start, value.end, "named")
    return Assignment(name, None, start, end, start, end, "named") if name else None

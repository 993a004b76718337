"""Read the few shapes of YAML that hold launch commands, with the place of every scalar.

Not a YAML parser: it finds given keys of one block and reads scalars, flow lists, block lists of scalars and
block mappings below them. Anchors, tags and merge keys are read as plain text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple

from doctor.errors import DoctorError

_KEY = re.compile(r"""(["']?)(?P<key>[\w./-]+)\1 *:(?: +(?P<rest>.*))?$""")
_BLOCK_HEAD = re.compile(r"[|>][+-]?\d?[+-]? *(?:#.*)?$")
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "0": "\0"}


class Line(NamedTuple):
    """One line without its newline, and the offset of its first character."""

    start: int
    text: str

    @property
    def end(self) -> int:
        """The offset behind the last character."""
        return self.start + len(self.text)


class Scalar(NamedTuple):
    """A scalar: its value, the source offset of each character (and of its end), and its quotes."""

    value: str
    offsets: Sequence[int]
    start: int
    end: int
    quotes: tuple[str, ...]


class Node(NamedTuple):
    """The value of a key. `end` is where its last line ends; `indent` stands in front of its items."""

    key: str
    column: int
    kind: Literal["scalar", "flow", "list", "map", "empty"]
    scalars: tuple[Scalar, ...]
    indent: str
    end: int
    lines: tuple[Line, ...]


def split_lines(text: str) -> tuple[Line, ...]:
    """Split text into lines that know their offsets."""
    lines, start = [], 0
    for raw in text.split("\n"):
        lines.append(Line(start, raw.rstrip("\r")))
        start += len(raw) + 1
    return tuple(lines)


def line_end(text: str, at: int) -> int:
    """Return the end of the line that `at` is on."""
    end = text.find("\n", at)
    return end if end >= 0 else len(text)


class Key(NamedTuple):
    """The key of a line `key: rest`, which may stand behind list dashes; `column` is where it begins."""

    name: str
    rest: str
    column: int


def match_key(line: Line) -> Key | None:
    """Read `key: rest`, None for other lines."""
    column = column_of(line)
    found = _KEY.match(line.text, column) if column >= 0 else None
    return Key(found["key"], found["rest"] or "", column) if found else None


def column_of(line: Line) -> int:
    """Return the column of the first character that is neither a blank nor a list dash; -1 for no content."""
    text = line.text
    column = len(text) - len(text.lstrip(" "))
    while text.startswith("- ", column):
        column += 2
        while text.startswith(" ", column):
            column += 1
    return -1 if column == len(text) or text[column] == "#" else column


def read_node(text: str, lines: Sequence[Line], at: int) -> Node:
    """Read the value of the key on line `at`."""
    head = match_key(lines[at])
    if head is None:
        raise DoctorError(f"line {at + 1} is no `key: value`: {lines[at].text.strip()[:60]}")
    rest = head.rest
    below = list_below(lines, at, head.column)
    start = lines[at].end - len(rest)
    if rest.startswith("["):
        return read_flow(text, start, Node(head.name, head.column, "flow", (), "", 0, ()))
    node = Node(head.name, head.column, "scalar", (), "", lines[at].end, below)
    if _BLOCK_HEAD.match(rest):
        return read_block(node, folded=rest[0] == ">")
    if rest and not rest.startswith("#"):
        return read_inline(text, start, node, lines[at].end)
    return read_children(text, node)


def list_below(lines: Sequence[Line], at: int, column: int) -> tuple[Line, ...]:
    """Return the lines below a key that belong to it: deeper ones, and list items in its own column."""
    below = []
    for line in lines[at + 1 :]:
        stripped = line.text.lstrip(" ")
        indent = len(line.text) - len(stripped)
        if stripped and not (indent > column or (indent == column and stripped.startswith("- "))):
            break
        below.append(line)
    while below and not below[-1].text.strip():
        below.pop()
    return tuple(below)


def read_flow(text: str, start: int, node: Node) -> Node:
    """Read `[a, "b", 'c']`, which may go over several lines."""
    scalars: list[Scalar] = []
    at = start + 1
    while True:
        at = skip_blanks(text, at)
        if text[at : at + 1] == "]":
            return node._replace(scalars=tuple(scalars), end=at + 1)
        if at >= len(text):
            line = text.count("\n", 0, start) + 1
            raise DoctorError(f"line {line}: [ is opened but never closed")
        scalar = read_scalar(text, at, stops=",]\n")
        scalars.append(scalar)
        at = scalar.end


def skip_blanks(text: str, at: int) -> int:
    """Return the offset of the next item of a flow list: behind blanks, commas and comments."""
    found = re.compile(r"(?:[\s,]|#[^\n]*)*").match(text, at)
    return found.end() if found else at


def read_scalar(text: str, at: int, stops: str) -> Scalar:
    """Read a quoted scalar, or a plain one up to one of `stops` or a comment."""
    if text[at] == "'":
        return read_single(text, at)
    if text[at] == '"':
        return read_double(text, at)
    found = re.compile(rf"(?:(?! #)[^{re.escape(stops)}])*").match(text, at)
    value = found[0].rstrip() if found else ""
    return Scalar(value, range(at, at + len(value) + 1), at, at + max(1, len(value)), ("y",))


def read_single(text: str, start: int) -> Scalar:
    """Read a single-quoted scalar, in which two quotes mean one."""
    found = re.compile(r"'((?:[^']|'')*)'").match(text, start)
    if found is None:
        raise DoctorError(f"line {text.count(chr(10), 0, start) + 1}: ' is opened but never closed")
    offsets = [start + 1 + pair.start() for pair in re.finditer(r"''|[^']", found[1])]
    return Scalar(found[1].replace("''", "'"), [*offsets, found.end() - 1], start, found.end(), ("y'",))


def read_double(text: str, start: int) -> Scalar:
    """Read a double-quoted scalar with backslash escapes."""
    value, offsets, at = [], [], start + 1
    while text[at : at + 1] != '"':
        if at >= len(text):
            raise DoctorError(f'line {text.count(chr(10), 0, start) + 1}: " is opened but never closed')
        offsets.append(at)
        step = 1 + (text[at] == "\\")
        character = text[at + step - 1 : at + step]
        value.append(_ESCAPES.get(character, character) if step == 2 else character)
        at += step
    return Scalar("".join(value), [*offsets, at], start, at + 1, ('y"',))


def read_inline(text: str, start: int, node: Node, line_end: int) -> Node:
    """Read a scalar that begins behind its key; a plain one may go on over the deeper lines below."""
    if text[start] in "'\"":
        scalar = read_scalar(text, start, stops="\n")
        return node._replace(scalars=(scalar,), end=max(line_end, text.find("\n", scalar.end - 1)))
    first = read_scalar(text, start, stops="\n")
    rest = [line for line in node.lines if column_of(line) > node.column]
    scalar = join_lines([Line(start, first.value), *(strip_line(line) for line in rest)], " ")
    return node._replace(scalars=(scalar._replace(quotes=("y",)),), end=rest[-1].end if rest else line_end)


def strip_line(line: Line) -> Line:
    """Return the line without its indentation."""
    stripped = line.text.lstrip(" ")
    return Line(line.end - len(stripped), stripped.rstrip())


def read_block(node: Node, *, folded: bool) -> Node:
    """Read a `|` or `>` scalar: a shell text of its own, with the indentation left out."""
    if not node.lines:
        return node._replace(kind="empty")
    filled = [line for line in node.lines if line.text.strip()]
    depth = min(len(line.text) - len(line.text.lstrip(" ")) for line in filled)
    dedented = [Line(line.start + min(depth, len(line.text)), line.text[depth:]) for line in node.lines]
    scalar = join_lines(dedented, " " if folded else "\n")
    return node._replace(scalars=(scalar,), end=node.lines[-1].end)


def join_lines(lines: Sequence[Line], joint: str) -> Scalar:
    """Join lines to one scalar without quotes; each joint stands for the end of a line."""
    offsets = [offset for line in lines for offset in range(line.start, line.end + 1)]
    return Scalar(joint.join(line.text for line in lines), offsets, lines[0].start, lines[-1].end, ())


def read_children(text: str, node: Node) -> Node:
    """Read the list items or the mapping below a key."""
    filled = [line for line in node.lines if column_of(line) >= 0]
    if not filled:
        return node._replace(kind="empty")
    first = filled[0].text
    indent = first[: len(first) - len(first.lstrip(" "))]
    node = node._replace(indent=indent, end=filled[-1].end)
    if not first.lstrip(" ").startswith("- "):
        return read_plain(node, filled) if match_key(filled[0]) is None else node._replace(kind="map")
    return node._replace(kind="list", scalars=tuple(read_items(text, filled, indent)))


def read_plain(node: Node, lines: Sequence[Line]) -> Node:
    """Read a plain scalar that begins on the line below its key."""
    scalar = join_lines([strip_line(line) for line in lines], " ")
    return node._replace(kind="scalar", scalars=(scalar._replace(quotes=("y",)),), indent="")


def split_items(lines: Sequence[Line], indent: str) -> list[list[Line]]:
    """Return the lines of each item of a block list."""
    items: list[list[Line]] = []
    for line in lines:
        if line.text.startswith(f"{indent}- "):
            items.append([])
        if items:
            items[-1].append(line)
    return items


def read_items(text: str, lines: Sequence[Line], indent: str) -> Iterator[Scalar]:
    """Yield the scalars of a block list; a `|` item is one scalar of several lines."""
    for item in split_items(lines, indent):
        line = item[0]
        start = line.start + len(indent) + 2
        start += len(text[start : line.end]) - len(text[start : line.end].lstrip(" "))
        if _BLOCK_HEAD.match(text[start : line.end]):
            node = Node("", 0, "scalar", (), "", 0, list_below(item, 0, len(indent)))
            yield from read_block(node, folded=text[start] == ">").scalars
        elif start < line.end:
            yield read_item(text, start, item[1:])


def read_item(text: str, start: int, below: Sequence[Line]) -> Scalar:
    """Read one scalar of a block list; a plain one may go on over the lines below."""
    first = read_scalar(text, start, stops="\n")
    if first.quotes != ("y",) or not below:
        return first
    lines = [Line(start, first.value), *map(strip_line, below)]
    return join_lines(lines, " ")._replace(quotes=("y",))

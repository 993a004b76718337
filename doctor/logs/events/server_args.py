"""The `server_args=` dump, in both styles: `ServerArgs(a=1, …)` (to 0.5.18) and `{'a': 1, …}` (from 0.5.19)."""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Iterator
from typing import Any

from doctor.logs.events.types import ServerArgs
from doctor.logs.records import Record

KEYWORDS = (b"server_args=",)

_START = re.compile(r"server_args=(ServerArgs\(|\{)")
_FIELD = re.compile(r"\s*(?:'(?P<quoted>\w+)'\s*:|(?P<plain>\w+)\s*=)\s*")
_WORDS = {"True": True, "False": False, "None": None}
_SIMPLE = re.compile(r"'[ !#-&(-\[\]-~]*'")
"""Most values are one of these; the parser of literals takes ten times longer."""

_CLOSING = {"(": ")", "[": "]", "{": "}", "<": ">"}
_LONGEST = 100_000
_LONGEST_VALUE = 20_000
_DEEPEST = 5
"""Characters read of one dump and of one value, and levels of nesting; real dumps have 8 to 14 thousand, and 2."""


def parse(record: Record) -> Iterator[ServerArgs]:
    """Yield the dump of the record."""
    text = record.text[:_LONGEST]
    found = _START.search(text)
    if found is None:
        return
    fields, truncated = split_fields(text[found.end() :])
    values = {}
    for field in fields:
        name = _FIELD.match(field)
        if name:
            values[name["quoted"] or name["plain"]] = parse_value(field[name.end() :])
    if values:
        yield ServerArgs(record, values, truncated)


def split_fields(text: str) -> tuple[list[str], bool]:
    """Split at the commas of the outermost level; (fields, True when the closing bracket is missing).

    Quotes, escapes, brackets and object reprs in angle brackets are respected.
    """
    fields: list[str] = []
    stack: list[str] = []
    start, quote = 0, ""
    at = 0
    while at < len(text):
        char = text[at]
        if quote:
            if char == "\\":
                at += 1
            elif char == quote:
                quote = ""
        elif char in "'\"":
            quote = char
        elif char in _CLOSING:
            stack.append(_CLOSING[char])
        elif stack and char == stack[-1]:
            stack.pop()
        elif char in ")}" and not stack:
            return [*fields, text[start:at]], False
        elif char == "," and not stack:
            fields.append(text[start:at])
            start = at + 1
        at += 1
    return fields, True


def parse_value(text: str, depth: int = 0) -> Any:
    """Read one value as a Python literal; a nested object such as `CudaGraphConfig(…)` becomes a dict of its fields.

    What is neither, or nothing that JSON could hold, stays text.
    """
    text = text.strip()
    if text in _WORDS:
        return _WORDS[text]
    if text[:1] == "'" and _SIMPLE.fullmatch(text):
        return text[1:-1]
    if len(text) > _LONGEST_VALUE or text.count("(") + text.count("[") + text.count("{") > _LONGEST_VALUE // 20:
        return text
    try:
        value = ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError, TypeError):
        return _parse_object(text, depth)
    return value if is_plain(value) else text


def _parse_object(text: str, depth: int) -> Any:
    nested = re.match(r"\w+\(", text)
    if nested and text.endswith(")") and depth < _DEEPEST:
        fields, _ = split_fields(text[nested.end() :])
        named = [
            (name["plain"], field[name.end() :]) for field in fields if (name := _FIELD.match(field)) and name["plain"]
        ]
        if named:
            return {name: parse_value(value, depth + 1) for name, value in named}
    return text


def is_plain(value: Any) -> bool:
    """True for None, texts, finite numbers of 64 bits, and lists, tuples and dicts of them."""
    if isinstance(value, list | tuple):
        return all(map(is_plain, value))
    if isinstance(value, dict):
        return all(isinstance(key, str | int) and is_plain(item) for key, item in value.items())
    if isinstance(value, float):
        return math.isfinite(value)
    return value is None or isinstance(value, str) or (isinstance(value, int) and abs(value) < 1 << 63)

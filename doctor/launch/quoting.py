"""Quote values for the place they go to: a shell word, a word inside `bash -c '...'`, a YAML scalar."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

from doctor.launch.shell_text import scan_tokens

_UNSAFE = re.compile(r"[^\w@%+=:,./~-]", re.ASCII)
# What YAML would read as something else than the same text: no letter or path at the start, or a keyword.
_PLAIN_YAML = re.compile(r"[A-Za-z./][\w./=@+~-]*", re.ASCII)
_YAML_WORDS = frozenset({"true", "false", "yes", "no", "on", "off", "null", "y", "n"})


def quote_shell(value: str, like: str = "") -> str:
    """Quote a value for a shell, in the quotes that the replaced source `like` has when they are enough."""
    if like[:1] == '"' and not re.search(r'["\\$`!]', value):
        return f'"{value}"'
    if like[:1] == "'" and "'" not in value:
        return f"'{value}'"
    if value and not _UNSAFE.search(value) and value[0] != "~":
        return value
    return "'" + value.replace("'", "'\"'\"'") + "'"


def quote_expandable(value: str) -> str:
    """Quote a value in which `$NAME` must stay a variable."""
    return '"' + re.sub(r'(["\\`])', r"\\\1", value) + '"'


def nest(source: str, quotes: Sequence[str]) -> str:
    """Rewrite shell source so that it can stand inside `quotes`, outermost first; `y` marks those of YAML."""
    for quote in reversed(quotes):
        if quote == "'":
            source = nest_single(source)
        elif quote == '"':
            source = re.sub(r'(["\\$`])', r"\\\1", source)
        elif quote == "y":
            source = nest_plain(source)
        elif quote == 'y"':
            source = re.sub(r'(["\\])', r"\\\1", source)
        elif quote == "y'":
            source = source.replace("'", "''")
        elif quote == "ssh":
            source = nest_joined(source)
    return source


def nest_joined(source: str) -> str:
    """Rewrite shell source as words that, joined by single blanks, are the same source again."""
    pieces, at = [], 0
    for token in scan_tokens(source):
        word = re.sub(r"[^\w@%+=:,./~\n-]", r"\\\g<0>", source[token.start : token.end], flags=re.ASCII)
        pieces += [source[at : token.start], word.replace("\n", "'\n'")]
        at = token.end
    return "".join(pieces) + source[at:]


def nest_plain(source: str) -> str:
    """Rewrite shell source for a plain YAML scalar, which must not contain `: ` or ` #`.

    An empty pair of the quotes that are open at that place (single ones outside) keeps the two apart.
    """
    pieces, opened = [], ""
    for at, character in enumerate(source):
        pieces.append(character)
        if character in "'\"" and opened in {"", character}:
            opened = "" if opened else character
        if source[at : at + 2] in {": ", " #"}:
            pieces.append((opened or "'") * 2)
    return "".join(pieces)


def nest_single(source: str) -> str:
    """Rewrite shell source for inside single quotes, with double quotes of its own where that is possible."""
    if "'" in source and not re.search(r'["\\$`!]', source):
        source = source.replace("'", '"')
    return source.replace("'", "'\\''")


def quote_yaml(value: str, like: str = "") -> str:
    """Write a string as a YAML scalar in the quotes of the scalar it replaces or stands next to."""
    if like[:1] == "'":
        return "'" + value.replace("'", "''") + "'"
    is_plain = _PLAIN_YAML.fullmatch(value.lstrip("-")) and value.lower() not in _YAML_WORDS
    if like[:1] == '"' or not is_plain:
        return json.dumps(value, ensure_ascii=False)
    return value

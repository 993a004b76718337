"""Split shell text into words, operators and comments that remember where they stand; nothing is expanded.

Covers what launch commands use: quotes, escapes, line continuations, redirections, `$VAR`, `${...}` and
`$(...)`, which are kept as they are. Every function is linear in the length of the text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Literal, NamedTuple

from doctor.errors import DoctorError

# A redirection with its file descriptor, then the operators that end a simple command.
_OPERATOR = re.compile(r"\d?>>|\d?>\||\d?>&\d?|\d?<&\d?|&>>?|\d?>|<<<|<<-?|\d?<|&&|\|\||\|&|;;|[|&;()]")
# A continuation ends in a backslash, that of PowerShell in a backquote, that of cmd in a caret; a backslash at the
# very end continues what was not pasted.
_BLANK = re.compile(r"(?:[^\S\n]|[\\`^]\r?\n|\\\Z)+")
_PLAIN = re.compile(r"[^\s\\'\"$`|&;()<>]+")
_BRACKET = re.compile(r"[(){}]")
# `<model>` in a command from a documentation page; a shell would read it as two redirections.
_PLACEHOLDER = re.compile(r"<[A-Za-z](?:[\w ./-]{0,60}\w)?>")
# `C:\models\x`: whoever types it means the backslashes.
_WINDOWS_PATH = re.compile(r"[A-Za-z]:\\[^\s'\"$`^|&;<>]*")
# What a backslash escapes inside double quotes; before anything else it is an ordinary character.
_ESCAPED = frozenset('"\\$`\n')


class Token(NamedTuple):
    """A word with its unquoted value, an operator, comment or line end; `text[start:end]` is its source."""

    kind: Literal["word", "operator", "comment", "newline"]
    value: str
    start: int
    end: int


class Chunk(NamedTuple):
    """Part of a word: its characters, and where the source of each of them begins."""

    value: str
    offsets: range
    end: int


def scan_tokens(text: str) -> Iterator[Token]:
    """Yield the tokens of `text`; a quote or bracket that is never closed raises DoctorError."""
    at = 0
    while at < len(text):
        blank = _BLANK.match(text, at)
        if blank:
            at = blank.end()
            continue
        token = scan_token(text, at)
        yield token
        at = token.end


def scan_token(text: str, at: int) -> Token:
    """Read the token that begins at `at`."""
    if text[at] == "\n":
        return Token("newline", "\n", at, at + 1)
    if text[at] == "#":
        end = text.find("\n", at)
        end = len(text) if end < 0 else end
        return Token("comment", text[at:end], at, end)
    operator = _OPERATOR.match(text, at)
    if operator and not _PLACEHOLDER.match(text, at):
        return Token("operator", operator[0], at, operator.end())
    windows = _WINDOWS_PATH.match(text, at)
    if windows:
        return Token("word", windows[0], at, windows.end())
    chunks = list(scan_word(text, at))
    return Token("word", "".join(chunk.value for chunk in chunks), at, chunks[-1].end)


def unquote(text: str) -> str:
    """Return the one word that a shell would read, or the text itself when it is none."""
    try:
        tokens = list(scan_tokens(text))
    except DoctorError:
        return text
    return tokens[0].value if len(tokens) == 1 and tokens[0].kind == "word" else text


def scan_word(text: str, at: int) -> Iterator[Chunk]:
    """Yield the parts of the word that begins at `at`, at least one."""
    while at < len(text) and (is_word_character(text[at]) or _PLACEHOLDER.match(text, at)):
        for chunk in scan_chunk(text, at):
            yield chunk
            at = chunk.end


def is_word_character(character: str) -> bool:
    """Tell whether an unquoted character belongs to a word."""
    return not character.isspace() and character not in "|&;()<>"


def scan_chunk(text: str, at: int) -> Iterator[Chunk]:
    """Yield one plain run, escape, expansion or quoted part."""
    character = text[at]
    plain = _PLAIN.match(text, at) or _PLACEHOLDER.match(text, at)
    if plain:
        yield Chunk(plain[0], range(at, plain.end()), plain.end())
    elif character == "\\":
        yield read_escape(text, at)
    elif character == "'":
        end = find_close(text, at, "'", at + 1)
        yield Chunk(text[at + 1 : end], range(at + 1, end), end + 1)
    elif character == '"':
        yield from scan_double_quoted(text, at)
    else:
        end = skip_expansion(text, at)
        yield Chunk(text[at:end], range(at, end), end)


def read_escape(text: str, at: int) -> Chunk:
    """Read a backslash outside quotes: a line continuation vanishes, another character loses its meaning."""
    continuation = re.compile(r"\\\r?\n").match(text, at)
    if continuation:
        return Chunk("", range(at, at), continuation.end())
    if at + 1 == len(text):
        return Chunk("", range(at, at), at + 1)
    return Chunk(text[at + 1], range(at, at + 1), at + 2)


def scan_double_quoted(text: str, start: int) -> Iterator[Chunk]:
    """Yield the parts of a double-quoted string; the last one ends behind the closing quote."""
    plain = re.compile(r'[^"\\$`]+')
    at = start + 1
    while text[at : at + 1] != '"':
        if at >= len(text):
            raise unclosed(text, start, '"')
        run = plain.match(text, at)
        if text[at] == "\\" and text[at + 1 : at + 2] in _ESCAPED:
            follower = text[at + 1].strip("\n")
            chunk = Chunk(follower, range(at, at + len(follower)), at + 2)
        else:
            end = run.end() if run else at + 1 if text[at] == "\\" else skip_expansion(text, at)
            chunk = Chunk(text[at:end], range(at, end), end)
        yield chunk
        at = chunk.end
    yield Chunk("", range(at, at), at + 1)


def skip_expansion(text: str, at: int) -> int:
    """Return where `$NAME`, `${...}`, `$(...)` or a backquoted command ends; a lone `$` is one character."""
    if text[at] == "`":
        return find_close(text, at, "`", at + 1) + 1
    opener = text[at + 1 : at + 2]
    if opener not in {"(", "{"}:
        return at + 1
    closer = {"(": ")", "{": "}"}[opener]
    depth = 0
    for match in _BRACKET.finditer(text, at + 1):
        depth += (match[0] == opener) - (match[0] == closer)
        if depth == 0:
            return match.end()
    raise unclosed(text, at, f"${opener}")


def find_close(text: str, start: int, mark: str, at: int) -> int:
    """Return the offset of the closing mark."""
    end = text.find(mark, at)
    if end < 0:
        raise unclosed(text, start, mark)
    return end


def unclosed(text: str, start: int, mark: str) -> DoctorError:
    """Build the error for a quote or bracket without its other half."""
    line = text.count("\n", 0, start) + 1
    excerpt = text[start : start + 40].splitlines()[0]
    return DoctorError(
        f"launch command, line {line}: {mark} is opened but never closed, at: {excerpt}",
        hint="paste the whole command, up to its last line",
    )

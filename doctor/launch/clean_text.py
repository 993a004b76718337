"""Undo what web pages, chat programs and terminals do to a command before someone pastes it."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

_PROGRAM = (
    r"(?:sudo |env |export |exec |nohup |time |numactl |docker |podman |srun |uv |torchrun |bash |"
    r"(?:\S*/)?python[\d.]* |(?:\S*/)?sglang |[A-Z_][A-Z0-9_]*=)"
)
# `user@host:~/dir$ `, `[root@host dir]# `, `(venv) $ `, `\u279c  dir `; a lone `# ` only in front of a known program.
_PROMPT = re.compile(
    r"^[ \t]*(?:\([\w.-]{1,40}\) ?)?"
    rf"(?:\[?[\w.-]{{1,64}}@[\w.-]{{1,64}}[^$#%\n]{{0,200}}[$#%] |\$ |[\u279c\u276f\u03bb] [^\n]{{0,80}}?(?={_PROGRAM})"
    rf"|[#%>] (?={_PROGRAM}))"
)
# A label without a blank behind it, such as `\u547d\u4ee4\uff1a`.
_LABEL = re.compile(rf"^[^\n'\"`]{{0,80}}(?:\uff1a| :) *(?={_PROGRAM})", re.MULTILINE)
_QUOTED = re.compile(rf"^> (?={_PROGRAM})", re.MULTILINE)
# A command in a sentence or a list of Markdown.
_INLINE_CODE = re.compile(r"\s*(?:[-*+] )?(`+)([^`\n]+)\1[.,;:]?\s*")
_FENCE = re.compile(r"^[ \t]*(?:```|~~~)[\w-]*[ \t]*$")
_INVISIBLE = dict.fromkeys(map(ord, "\u200b\u200c\u200d\ufeff\u2060"))
_SPACES = dict.fromkeys(map(ord, "\u00a0\u2007\u2009\u202f\u3000"), " ")
_DASHES = "\u2010-\u2015\u2212\uff0d"
_WORD_START = r"(?<![^\s\"'\[,])"


class Cleaned(NamedTuple):
    """The text that the shell was meant to get, and what had to be done to it."""

    text: str
    notes: tuple[str, ...]


def clean_text(text: str) -> Cleaned:
    """Normalise quotes, dashes, spaces, prompts and Markdown fences; ordinary text comes back unchanged."""
    notes = []
    for note, change in STEPS:
        changed = change(text)
        if changed != text:
            notes.append(note)
        text = changed
    return Cleaned(text, tuple(notes))


def drop_fences(text: str) -> str:
    """Drop the lines that open and close a Markdown code block, and the backquotes around inline code."""
    lines = text.splitlines(keepends=True)
    kept = [line for line in lines if not _FENCE.match(line.rstrip("\r\n"))]
    inline = _INLINE_CODE.fullmatch(text)
    return inline[2] if inline else text if len(kept) == len(lines) else "".join(kept)


def drop_prompts(text: str) -> str:
    """Drop a shell prompt or a label in front of the first line, and `> ` in front of the continued ones."""
    text = _LABEL.sub("", text)
    if not _PROMPT.match(text):
        return text
    first, newline, rest = _PROMPT.sub("", text).partition("\n")
    return first + newline + re.sub(r"(?m)^> ?", "", rest)


def drop_quotes(text: str) -> str:
    """Drop the `> ` of a quotation in front of the lines of a command."""
    return re.sub(r"(?m)^> ?", "", text) if _QUOTED.search(text) else text


def straighten_spaces(text: str) -> str:
    """Replace non-breaking spaces and drop zero-width characters."""
    return text.translate(_INVISIBLE | _SPACES)


def straighten_dashes(text: str) -> str:
    """Make hyphens of the dashes that begin a flag and of those inside its name; other dashes stay.

    An en or em dash stands for two hyphens (that is what typographic software replaces), except in front of
    a single letter (`-m`).
    """
    text = re.sub(rf"{_WORD_START}-?[\u2013-\u2015]-?(?=[A-Za-z]{{2}})", "--", text)
    text = re.sub(rf"{_WORD_START}[{_DASHES}](?=[A-Za-z]\b)", "-", text)
    return re.sub(
        rf"{_WORD_START}[{_DASHES}-]{{2}}[A-Za-z][\w{_DASHES}-]*",
        lambda match: re.sub(f"[{_DASHES}]", "-", match[0]),
        text,
    )


def straighten_quotes(text: str) -> str:
    """Replace typographic quotes that come in pairs; a lone apostrophe inside a word stays."""
    text = re.sub(r"[\u201c\u201d\u201e]([^\u201c\u201d\u201e\n]*)[\u201c\u201d]", r'"\1"', text)
    return re.sub(r"(?<![^\s=,:\[])[\u2018\u2019\u201a]([^\u2018\u2019\n]*)[\u2018\u2019]", r"'\1'", text)


def join_lines(text: str) -> str:
    """Drop blanks and comments behind a backslash at the end of a line: the shell would not continue there."""
    return re.sub(r"(?<!\\)\\[ \t]+(?:#[^\r\n]*)?(?=\r?\n)", r"\\", text)


STEPS: tuple[tuple[str, Callable[[str], str]], ...] = (
    ("typographic spaces were replaced", straighten_spaces),
    ("Markdown fences were dropped", drop_fences),
    ("the shell prompt was dropped", drop_prompts),
    ("the marks of a quotation were dropped", drop_quotes),
    ("typographic dashes were replaced with the hyphens that the shell needs", straighten_dashes),
    ("typographic quotes were replaced with straight ones", straighten_quotes),
    ("what followed a backslash at the end of a line was dropped: it breaks the command there", join_lines),
)

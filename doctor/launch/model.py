"""What a launch command is made of; every piece remembers where it stands, so that an edit changes only it."""

from __future__ import annotations

import re
from typing import Literal, NamedTuple

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class Word(NamedTuple):
    """One word: what the program receives (`$VARS` unexpanded), and its source, `text[start:end]`."""

    value: str
    start: int
    end: int


EnvStyle = Literal["prefix", "docker", "map", "list", "named", "words", "braces", "brackets"]


class Assignment(NamedTuple):
    """An environment variable that the command sets, and the source that would have to go to unset it.

    `value` is None where the variable is only passed through (`docker run -e NAME`). `value_start` and
    `value_end` enclose the source of the value, in a YAML list that of `NAME=value`. `quotes` are those of the
    script that it stands in, as in Layout.
    """

    name: str
    value: str | None
    start: int
    end: int
    value_start: int
    value_end: int
    style: EnvStyle = "prefix"
    quotes: tuple[str, ...] = ()


class EnvPlace(NamedTuple):
    """Where and how a new variable is set: an offset, and for YAML the indentation.

    `header` stands in front of it (`env `, a missing key of YAML); `quotes` are as in Layout.
    """

    style: EnvStyle
    at: int
    indent: str = ""
    header: str = ""
    quotes: tuple[str, ...] = ()


class Layout(NamedTuple):
    """How the text is written, which decides what an inserted piece looks like.

    `style`: a shell command, a YAML block list or a flow list of words. `quotes`: what the whole command is
    quoted in, outermost first: `'` and `"` of `bash -c '...'`, `y'`, `y"` and `y` (none) of YAML, `ssh` for words
    that are joined and read by another shell. `env`: where a new variable goes. `wrap_at`: where `env -u NAME` can
    be put, None when there is no program to put it in front of. `flags_at`: where a new flag goes.
    `needs_separator`: SGLang's own flags must follow a `--` that is not there yet. `unset`: variables that `env -u`
    takes away already. `indent`: of a YAML list item.
    """

    style: Literal["shell", "list", "flow"]
    quotes: tuple[str, ...]
    env: EnvPlace
    wrap_at: int | None
    flags_at: int
    needs_separator: bool
    unset: tuple[str, ...]
    indent: str = ""


class Command(NamedTuple):
    """A launch command: `text` with the places of its parts.

    `wrapper` is everything in front of SGLang's entry point (numactl, docker run ... image, an unknown
    program with its own arguments); `entry` is `sglang serve`, `python3 -m sglang.launch_server` or empty;
    `arguments` are the words that SGLang's parser receives. `notes` says what was cleaned up or looks wrong.
    """

    text: str
    env: tuple[Assignment, ...]
    wrapper: tuple[Word, ...]
    entry: tuple[Word, ...]
    arguments: tuple[Word, ...]
    layout: Layout
    notes: tuple[str, ...]


def read_assignment(word: Word, whole: Word) -> Assignment | None:
    """Read `NAME=value`, or also a lone `NAME` where it is the argument of an option, `whole` being both."""
    name, equals, value = word.value.partition("=")
    if not _NAME.fullmatch(name) or (not equals and word is whole):
        return None
    value_start = word.start + len(name) + len(equals)
    return Assignment(name, value if equals else None, whole.start, whole.end, value_start, word.end)

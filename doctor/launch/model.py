"""What a launch command is made of. Every piece remembers where it stands, so that an edit changes only that."""

from __future__ import annotations

from typing import Literal, NamedTuple


class Word(NamedTuple):
    """One word: what the program receives (`$VARS` unexpanded), and its source, `text[start:end]`."""

    value: str
    start: int
    end: int


class Assignment(NamedTuple):
    """An environment variable that the command sets, and the source that would have to go to unset it.

    `value` is None where the variable is only passed through (`docker run -e NAME`). `value_start` and
    `value_end` enclose the source of the value.
    """

    name: str
    value: str | None
    start: int
    end: int
    value_start: int
    value_end: int


class Layout(NamedTuple):
    """How the text is written, which decides what an inserted piece looks like.

    `style`: a shell command, a YAML block list or a flow list of words. `quotes`: the quotes around the whole
    command, outermost first (`bash -c '...'`). `env_style` and `env_at`: how and where a new variable is set;
    `wrap_at`: where `env -u NAME` can be put, None when there is no program to put it in front of.
    `needs_separator`: SGLang's own flags must follow a `--` that is not there yet.
    `unset`: variables that `env -u` takes away already. `indent`: of a YAML list item.
    """

    style: Literal["shell", "list", "flow"]
    quotes: tuple[str, ...]
    env_style: Literal["prefix", "docker", "map", "list", "named", "none"]
    env_at: int
    wrap_at: int | None
    flags_at: int
    needs_separator: bool
    unset: tuple[str, ...]
    indent: str


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

"""Mend a command whose lines do not continue: a backslash is missing, or a comment stands between them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise

from doctor.launch.model import Command
from doctor.launch.pieces import Splice, apply_splices

NOTE = "lines were joined: a comment or a missing backslash ends the command there"
_GAP = re.compile(r"(?:[^\S\n]|[\\`^](?=\r?\n)|\n|#[^\n]*)*")
CONTINUATIONS = ("\\", "`", "^")


def mend_lines(command: Command) -> str:
    """Return the text with every line of a shell command continued; other forms come back unchanged.

    A line that begins with a flag was taken for a continuation already, because its writer meant it so; a shell
    would start a command of that name.
    """
    if command.layout.style != "shell" or not command.entry:
        return command.text
    return apply_splices(command.text, find_breaks(command))


def find_breaks(command: Command) -> Iterator[Splice]:
    """Yield the splices that continue the broken lines between the words of a command."""
    text = command.text
    words = sorted((*command.wrapper, *command.entry, *command.arguments), key=lambda word: word.start)
    for word, following in pairwise(words):
        gap = text[word.end : following.start]
        if "\n" in gap and _GAP.fullmatch(gap) and is_broken(gap):
            indent = gap.rpartition("\n")[2]
            yield Splice(word.end, following.start, f" {find_mark(text)}\n{indent}")


def is_broken(gap: str) -> bool:
    """Tell whether a shell would end the command between two words."""
    *lines, _ = gap.split("\n")
    return any("#" in line or not line.rstrip().endswith(CONTINUATIONS) for line in lines)


def find_mark(text: str) -> str:
    """Return what the other lines of the command end with, a backslash where none does."""
    return next((mark for mark in CONTINUATIONS if f"{mark}\n" in text or f"{mark}\r\n" in text), "\\")

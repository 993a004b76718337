"""Join lines that a terminal or a pager broke at its width and that were copied that way."""

from __future__ import annotations

import re
from collections.abc import Sequence

from doctor.logs.kinds import Numbered

_NARROWEST = 60
_WIDEST = 400
"""Columns; a terminal has 80 or more, a mail program breaks at 72, and a wide screen full of text has 380."""

_FULL = 4
"""Lines of the same length, one after another, that show the width: a dump of 12 kB fills 150 of them."""

_FRAME = b'  File "'
_WHOLE_FRAME = re.compile(rb'", line \d{1,9}, in \S')
_OF_TABLES = (b"|", b"+", b"-", b"=", b"*", b"#", b"\xe2")
_NOT_BROKEN = (_FRAME, b"    ", b"Traceback", b"\t")


class Wraps:
    """The width at which one file's lines were broken; 0 as long as nothing shows it, or when a longer line came."""

    def __init__(self) -> None:
        self.longest = 0
        """Columns of the longest line so far."""
        self._width = 0

    def widen(self, line: bytes) -> None:
        """Take a line that may be longer than all others: a width that it exceeds is none."""
        columns = _count_columns(line)
        if columns > self.longest:
            self.longest, self._width = columns, 0

    def join(self, lines: list[Numbered]) -> list[Numbered]:
        """Give a record's lines as they were written, each under the number of its first part."""
        for _, line in lines:
            if len(line) > self.longest:
                self.widen(line)
        if not self._width and _NARROWEST <= self.longest <= _WIDEST and _shows_width(lines, self.longest):
            self._width = self.longest
        return _join(lines, self._width) if self._width else lines


def _count_columns(line: bytes) -> int:
    return len(line) if line.isascii() else len(line.decode("utf-8", "replace"))


def _shows_width(lines: Sequence[Numbered], width: int) -> bool:
    """True for a frame that was cut in two, and for consecutive full lines that are no table."""
    run: set[bytes] = set()
    for at, (_, line) in enumerate(lines):
        if _count_columns(line) < width or line.startswith(_OF_TABLES):
            run.clear()
            continue
        run.add(line)
        if len(run) >= _FULL or (at + 1 < len(lines) and _is_cut_frame(line, lines[at + 1][1])):
            return True
    return False


def _is_cut_frame(line: bytes, following: bytes) -> bool:
    """True for a traceback's frame of which the next line is the rest."""
    if not line.startswith(_FRAME) or following[:1] in (b" ", b"") or _WHOLE_FRAME.search(line):
        return False
    return _WHOLE_FRAME.search(line + following) is not None


def _join(lines: Sequence[Numbered], width: int) -> list[Numbered]:
    joined: list[tuple[int, list[bytes]]] = []
    full = False
    for number, line in lines:
        if full and not line.startswith(_NOT_BROKEN):
            joined[-1][1].append(line)
        else:
            joined.append((number, [line]))
        full = _count_columns(line) == width
    return [(number, b"".join(parts)) for number, parts in joined]

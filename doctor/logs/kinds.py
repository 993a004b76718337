"""Route lines by kind before any rule sees them: batch lines, access lines and logged requests never match a rule.

`drop_plain` is the hot path of `doctor explain`: a few C calls per line, faster than ripgrep with as many keywords.
What it leaves is one or two percent of a real log; the rest of the pipeline may be as careful as it likes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from io import BytesIO
from itertools import count, islice
from typing import NamedTuple

from doctor.logs.lines import Block

ECHO = b"\x01 a logged request"
"""Stands in for a logged request (`--log-requests`): its text is the users', never evidence.

Told apart by identity, so it is no single byte: CPython shares those, and a log may hold any of them.
"""

_PREFIX = 160
"""How far a container, journal or Ray prefix may push a marker to the right, in bytes."""

_LONGEST_STAT = 1000
"""A longer "batch line" is a paste that lost its newlines."""

_SHORT_STAT = 164
"""A decode line of 0.5.6 or later has at least 144 bytes and a second record 23: a shorter line cannot hold both."""

_FIRST = 4096
"""Up to here every line is looked at with care; then the column of the batch lines is known."""

_MOST_SAMPLES = 1024
_SPARSE = 16
"""Batch lines kept for the runtime facts, evenly over the file; from line 4,096 on at most every 16th line is one."""

_OK = b'" 200 OK'
_OK_LINE = _OK + b"\n"
_DECODE = b"Decode batch, #"
_INFO = b"INFO:     "
_INFO_AT = slice(22, 22 + len(_INFO))
_SHORT_ACCESS = 100
"""An access line (68 bytes at least, its time included) behind another record's start (32) ends beyond this."""

_STAT_HEADS = (b"Decode", b"refill")
_STAT_TAILS = (b", ", b". ", b" [")
"""What follows "batch": `, #` from 0.5.6, `. #` to 0.5.2, ` [N], #` in 0.5.4 and with SGLANG_LOG_FORWARD_ITERS."""

Numbered = tuple[int, bytes]


class Routed(NamedTuple):
    """Some lines by kind: those to read with care, and how many were set aside.

    After the first 4,095 lines plain access lines are counted as batch lines.
    """

    others: list[Numbered]
    batches: int
    accesses: int


class Sampler:
    """Keeps the lines whose numbers `every` divides, which doubles when there are too many; order does not matter."""

    def __init__(self) -> None:
        self.every = 1
        self.kept: list[Numbered] = []

    def offer(self, number: int, line: bytes) -> None:
        """Keep a line, or not."""
        if number % self.every == 0:
            self.kept.append((number, line))
            if len(self.kept) > _MOST_SAMPLES:
                self.thin(2 * self.every)

    def thin(self, every: int) -> None:
        """Keep fewer lines from now on, and of those kept so far."""
        self.every = every
        self.kept = [item for item in self.kept if item[0] % every == 0]


class Router:
    """Routes the lines of one file and numbers them; remembers in which column this log's batch lines start.

    The column is taken over at every 4,096th line, so that the result depends on the lines alone, not on where blocks
    begin.
    """

    def __init__(self) -> None:
        self.number = 1
        """Of the next line."""
        self.batches = Sampler()
        self._column = 0
        self._seen = 0

    def route(self, block: Block) -> Iterator[Routed]:
        """Split a block by kind, page by page."""
        lines, size = BytesIO(block.text), len(block.text)
        while lines.tell() < size:
            yield self._route_page(lines) if self.number >= _FIRST else self._route_first(lines)
        self.number -= block.continues

    def _route_first(self, lines: BytesIO) -> Routed:
        numbers = count(self.number)
        page = zip(islice(lines, _FIRST - self.number), numbers, strict=False)
        candidates = [(at, line) for line, at in page]
        self.number = next(numbers)
        return self._sort(candidates, 0)

    def _route_page(self, lines: BytesIO) -> Routed:
        """Take lines up to the next one that may be kept."""
        first = self.number
        if first % _FIRST == 0:
            self._column = self._seen
            self.batches.thin(max(self.batches.every, _SPARSE))
        room = self.batches.every - first % self.batches.every
        candidates = [(first, lines.readline())] if room == self.batches.every else []
        numbers = count(first + len(candidates))
        page = zip(islice(lines, room - len(candidates)), numbers, strict=False)
        candidates += drop_plain(page, self._column) if self._column else [(at, line) for line, at in page]
        self.number = next(numbers)
        return self._sort(candidates, self.number - first - len(candidates))

    def _sort(self, candidates: list[Numbered], dropped: int) -> Routed:
        batches, accesses = dropped, 0
        others: list[Numbered] = []
        for number, whole in candidates:
            line = whole.rstrip(b"\n")
            if _is_stat(line):
                batches += 1
                self._seen = self._seen or max(line.find(_DECODE), 0)
                self.batches.offer(number, line)
            elif _is_plain_access(line):
                accesses += 1
            else:
                others.append((number, ECHO if is_request_echo(line) else line))
        return Routed(others, batches, accesses)


def drop_plain(lines: Iterable[tuple[bytes, int]], column: int) -> list[Numbered]:
    """List what is neither a plain decode line (these start in `column`) nor a plain 200 access line.

    A line is freed before the next one is made, so that all of them use the same memory (measured with the reading:
    155 ns a line instead of 200).
    Slices compare faster than `startswith`, and `find` costs twice as much as a slice.
    """
    head, tail = slice(column, column + len(_DECODE)), slice(-len(_OK) - 1, None)
    return [
        (number, line)
        for line, number in lines
        if not (
            (len(line) <= _SHORT_STAT or (len(line) < _LONGEST_STAT and line.find(b"[", 1) < 0))
            if line[head] == _DECODE
            else line[tail] == _OK_LINE
            and ((len(line) <= _SHORT_ACCESS and line[_INFO_AT] == _INFO) or line.find(b"[", 1) < 0)
        )
    ]


def _is_plain_access(line: bytes) -> bool:
    """True when the line is one access line with 200 and nothing else was pasted before it."""
    if line[-len(_OK) :] != _OK:
        return False
    return (len(line) < _SHORT_ACCESS and line[_INFO_AT] == _INFO) or line.find(b"[20", 21) < 0


def _is_stat(line: bytes) -> bool:
    """True when the line is one batch line and nothing else was pasted to its end."""
    at = line.find(b" batch", 20, _PREFIX)
    return (
        at > 0
        and line[at - 6 : at] in _STAT_HEADS
        and line[at + 6 : at + 8] in _STAT_TAILS
        and len(line) < _LONGEST_STAT
        and (line.find(b"[20", 21) < 0 or line.count(b"[20") < 2)  # its own prefix
    )


_ECHO_MARKERS = (
    b"Receive: obj=",
    b"Finish: obj=",
    b"Receive OpenAI: obj=",
    b'"event": "request.',
    b'"event":"request.',
)
"""`--log-requests` as text and as JSON (`srt/utils/request_logger.py`, 0.4.6 to 0.5.23)."""


def is_request_echo(line: bytes) -> bool:
    """True for a record of `--log-requests`, whose text is a user's prompt or a model's answer."""
    if line.find(b": obj=", 0, _PREFIX) < 0 and line.find(b'"event":', 0, _PREFIX) < 0:
        return False
    return any(line.find(marker, 0, _PREFIX) >= 0 for marker in _ECHO_MARKERS)

"""Route lines by kind before any rule sees them: batch lines, access lines and logged requests never match a rule.

`drop_plain` is the hot path of `doctor explain`: a few C calls per line, measured to be about as fast as ripgrep.
What it leaves is one or two percent of a real log; the rest of the pipeline may be as careful as it likes.
"""

from __future__ import annotations

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

_PAGE = 4096
_EVERY = 2048
"""Batch lines kept for the runtime facts: those of the first page of 4,096 lines, then of every 2,048th line."""

_OK = b'" 200 OK'
_DECODE = b"Decode batch, #"
_STAT_HEADS = (b"Decode", b"refill")
_STAT_TAILS = (b", ", b". ", b" [")
"""What follows "batch": `, #` from 0.5.6, `. #` to 0.5.2, ` [N], #` in 0.5.4 and with SGLANG_LOG_FORWARD_ITERS."""

Numbered = tuple[int, bytes]


class Routed(NamedTuple):
    """One block's lines by kind: those to read with care, the kept batch lines, and how many were set aside."""

    others: list[Numbered]
    stats: list[Numbered]
    batches: int
    accesses: int


class Router:
    """Routes the blocks of one file; remembers only in which column this log's batch lines start.

    The column is taken over at every 4,096th line, so that the result depends on the lines alone, not on where blocks
    begin.
    """

    def __init__(self) -> None:
        self._column = 0
        self._seen = 0

    def route(self, block: Block) -> Routed:
        """Split a block by kind."""
        rest = _PAGE - block.first % _PAGE
        if len(block.lines) <= rest:
            return self._route_page(block)
        head = self._route_page(Block(block.first, block.lines[:rest]))
        tail = self.route(Block(block.first + rest, block.lines[rest:]))
        return Routed(
            head.others + tail.others,
            head.stats + tail.stats,
            head.batches + tail.batches,
            head.accesses + tail.accesses,
        )

    def _route_page(self, block: Block) -> Routed:
        lines, first = block.lines, block.first
        if first % _PAGE == 0:
            self._column = self._seen
        candidates = drop_plain(lines, self._column) if self._column else list(range(len(lines)))
        batches, accesses = len(lines) - len(candidates), 0
        others: list[Numbered] = []
        for index in candidates:
            line = lines[index]
            if _is_stat(line):
                batches += 1
                self._seen = self._seen or max(line.find(_DECODE), 0)
            elif line[-8:] == _OK and line.find(b"[20", 21) < 0:
                accesses += 1
            else:
                others.append((first + index, ECHO if is_request_echo(line) else line))
        every = _EVERY if first >= _PAGE else 1
        kept = [(first + index, lines[index]) for index in range(-first % every, len(lines), every)]
        return Routed(others, [item for item in kept if _is_stat(item[1])], batches, accesses)


def drop_plain(lines: list[bytes], column: int) -> list[int]:
    """List what is neither a plain decode line (these start in `column`) nor a plain 200 access line.

    Slices compare faster than `startswith`, and a search for one byte is cheap (measured: 120 ns a line in all).
    """
    head, tail = slice(column, column + len(_DECODE)), slice(-len(_OK), None)
    return [
        index
        for index, line in enumerate(lines)
        if not (
            (len(line) < _SHORT_STAT or (len(line) < _LONGEST_STAT and line.find(b"[", 1) < 0))
            if line[head] == _DECODE
            else line[tail] == _OK and line.find(b"[", 1) < 0
        )
    ]


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

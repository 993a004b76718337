"""Route lines by kind before any rule sees them: batch lines, access lines and logged requests never match a rule.

The loop here is the hot path of `doctor explain`: two bounded `find`s and a slice per line. Everything it sets aside
is a few percent of a real log; the rest of the pipeline may be as careful as it likes.
"""

from __future__ import annotations

from typing import NamedTuple

from doctor.logs.lines import Block

ECHO = b"\x01"
"""Stands in for a logged request (`--log-requests`): its text is the users', never evidence."""

_PREFIX = 160
"""How far a container, journal or Ray prefix may push a batch line's marker to the right, in bytes."""

_LONGEST_STAT = 1000
"""A longer "batch line" is a paste that lost its newlines."""

_STATS_ALL = 4096
_STATS_EVERY = 64
"""Batch lines kept for the runtime facts: the first 4,096, then every 64th (one per ~40 s at one line per 0.6 s)."""

Numbered = tuple[int, bytes]


class Routed(NamedTuple):
    """One block's lines by kind: those to read with care, the kept batch lines, and the counts of the others."""

    others: list[Numbered]
    stats: list[Numbered]
    stat_count: int
    access_count: int


def route_block(block: Block, stats_seen: int) -> Routed:
    """Split a block by kind; `stats_seen` is the number of batch lines before it (it decides which are kept)."""
    others: list[Numbered] = []
    stats: list[Numbered] = []
    access = 0
    seen = stats_seen
    glued = block.glued
    number = block.first - 1
    for line in block.lines:
        number += 1
        if line.find(b" batch, #", 20, _PREFIX) > 0 and is_whole_stat(line, glued):
            seen += 1
            if seen <= _STATS_ALL or not seen % _STATS_EVERY:
                stats.append((number, line))
        elif line[-8:] == b'" 200 OK' and (not glued or line.count(b"[20") < 2):
            access += 1
        elif len(line) > 200 and is_request_echo(line):
            others.append((number, ECHO))
        else:
            others.append((number, line))
    return Routed(others, stats, seen - stats_seen, access)


def is_whole_stat(line: bytes, glued: bool) -> bool:
    """True when the line is one batch line and nothing else was pasted to its end."""
    return len(line) < _LONGEST_STAT and not (glued and line.count(b"[20") > 1)


_ECHO_MARKERS = (b"Receive: obj=", b"Finish: obj=", b"Receive OpenAI: obj=", b'"event": "request.')
"""`--log-requests` as text and as JSON (`srt/utils/request_logger.py`, 0.4.6 to 0.5.23); always over 200 bytes long."""


def is_request_echo(line: bytes) -> bool:
    """True for a record of `--log-requests`, whose text is a user's prompt or a model's answer."""
    return any(line.find(marker, 0, _PREFIX) >= 0 for marker in _ECHO_MARKERS)

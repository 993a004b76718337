"""Cut a stream of bytes into numbered lines, in bounded memory whatever the stream holds."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

MAX_LINE = 1 << 20
"""Longest piece kept of one line, in bytes: a `server_args=` dump is about 12 kB, a logged request a few MB at most."""

MAX_LINES = 10_000
"""Lines of a block at most; a chunk of a real log has two thousand, one of newlines alone has 250 thousand."""

_ESCAPE = re.compile(rb"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b\n]*(?:\x07|\x1b\\)?|[@-Z\\-_])")
_STAMP = b"[20"
"""How every SGLang record starts (`[2026-04-24 06:29:19`); used to cut lines whose newlines were lost."""


class Block(NamedTuple):
    """Consecutive lines: the number of the first and the lines; `cut` counts bytes dropped from an oversized line."""

    first: int
    lines: list[bytes]
    cut: int = 0


class LineCutter:
    """Cut chunks into lines as they come; the lines do not depend on where the chunks end."""

    def __init__(self) -> None:
        self._number = 1
        self._rest = b""
        self._dropping = False
        self._dropped = 0

    def feed(self, chunk: bytes) -> Iterator[Block]:
        """Yield the lines that this chunk completes."""
        if not self._dropping and len(chunk) <= MAX_LINE and not _is_special(chunk) and not _is_special(self._rest):
            lines = chunk.split(b"\n")
            if len(lines) > 1 and len(self._rest) + len(lines[0]) <= MAX_LINE:
                lines[0] = self._rest + lines[0]
                self._rest = lines.pop()
                yield from _make_blocks(self._number, lines)
                self._number += len(lines)
                return
        self._rest += chunk
        if self._dropping:
            yield from self._drop()
        end = -1 if self._dropping else self._rest.rfind(b"\n")
        if end >= 0:
            whole, self._rest = self._rest[:end], self._rest[end + 1 :]
            for block in _split_lines(whole, self._number):
                yield block
                self._number = max(self._number, block.first + len(block.lines))
        while len(self._rest) > MAX_LINE and not self._dropping:
            piece, self._rest, self._dropping = _cut_piece(self._rest)
            yield Block(self._number, [clean_bytes(piece)])
            if self._dropping:
                yield from self._drop()

    def finish(self) -> Iterator[Block]:
        """Yield the last line, which has no newline."""
        if self._dropping:
            yield Block(self._number, [], cut=self._dropped + len(self._rest))
        elif self._rest:
            yield from _split_lines(self._rest, self._number)

    def _drop(self) -> Iterator[Block]:
        self._rest, skipped, self._dropping = _skip_to_boundary(self._rest)
        self._dropped += skipped
        if not self._dropping:
            yield Block(self._number, [], cut=self._dropped)
            self._dropped = 0


def read_blocks(chunks: Iterable[bytes]) -> Iterator[Block]:
    """Yield the lines of a whole stream."""
    cutter = LineCutter()
    for chunk in chunks:
        yield from cutter.feed(chunk)
    yield from cutter.finish()


def _is_special(text: bytes) -> bool:
    """True when `clean_bytes` would have something to do."""
    return b"\x1b" in text or b"\r" in text or b"\0" in text


def _split_lines(text: bytes, number: int) -> Iterator[Block]:
    """Split whole lines; a line above `MAX_LINE` is cut into pieces under its own number."""
    if len(text) > MAX_LINE and max(map(len, text.split(b"\n"))) > MAX_LINE:
        yield from _split_oversized(text.split(b"\n"), number)
        return
    yield from _make_blocks(number, clean_bytes(text).split(b"\n"))


def _make_blocks(number: int, lines: list[bytes]) -> Iterator[Block]:
    for at in range(0, len(lines), MAX_LINES):
        yield Block(number + at, lines[at : at + MAX_LINES] if len(lines) > MAX_LINES else lines)


def _split_oversized(lines: list[bytes], number: int) -> Iterator[Block]:
    for line in lines:
        rest, cut = line, 0
        while len(rest) > MAX_LINE:
            piece, rest, dropping = _cut_piece(rest)
            yield Block(number, [clean_bytes(piece)])
            if dropping:
                rest, skipped, still = _skip_to_boundary(rest)
                cut += skipped
                if still:
                    cut, rest = cut + len(rest), b""
        yield Block(number, [clean_bytes(rest)], cut=cut)
        number += 1


def _cut_piece(text: bytes) -> tuple[bytes, bytes, bool]:
    """Take at most `MAX_LINE` bytes, up to a record or progress-bar boundary; True when the rest is to be dropped."""
    window = text[:MAX_LINE]
    boundary = max(window.rfind(_STAMP), window.rfind(b"\r"))
    if boundary > 0:
        return window[:boundary], text[boundary:], False
    return window, text[MAX_LINE:], True


def _skip_to_boundary(text: bytes) -> tuple[bytes, int, bool]:
    """Drop bytes up to the next newline, carriage return or record start; keep two bytes that may begin one."""
    found = [at for at in (text.find(b"\n"), text.find(b"\r"), text.find(_STAMP)) if at >= 0]
    if found:
        return text[min(found) :], min(found), False
    keep = text[-2:]
    return keep, len(text) - len(keep), True


def clean_bytes(text: bytes) -> bytes:
    """Drop terminal escapes, NULs and the CR of CRLF; a lone CR (a progress bar) stays."""
    if b"\x1b" in text:
        text = _ESCAPE.sub(b"", text)
    if b"\0" in text:
        text = text.replace(b"\0", b"")
    if b"\r" in text:
        text = text.replace(b"\r\n", b"\n")
        if text.endswith(b"\r"):
            text = text[:-1]
    return text

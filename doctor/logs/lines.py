"""Cut a stream of bytes into numbered lines, in bounded memory whatever the stream holds."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

MAX_LINE = 1 << 20
"""Longest piece kept of one line, in bytes: a `server_args=` dump is about 12 kB, a logged request a few MB at most."""

_ESCAPE = re.compile(rb"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b\n]*(?:\x07|\x1b\\)?|[@-Z\\-_])")
_STAMP = b"[20"
"""How every SGLang record starts (`[2026-04-24 06:29:19`); used to cut lines whose newlines were lost."""


class Block(NamedTuple):
    """Consecutive whole lines as one text, each with its newline; `cut` counts bytes dropped from an oversized line.

    `continues`: the text is a piece of an oversized line, and what follows belongs to the same line.
    """

    text: bytes
    cut: int = 0
    continues: bool = False


class LineCutter:
    """Cut chunks at line ends as they come; the lines do not depend on where the chunks end."""

    def __init__(self) -> None:
        self._rest = b""
        self._dropping = False
        self._dropped = 0

    def feed(self, chunk: bytes) -> Iterator[Block]:
        """Yield the lines that this chunk completes."""
        if self._is_plain(chunk):
            end = chunk.rfind(b"\n") + 1
            if end:
                text = b"".join((self._rest, memoryview(chunk)[:end]))
                self._rest = chunk[end:]
                yield Block(text)
                return
        self._rest += chunk
        if self._dropping:
            yield from self._drop()
        end = 0 if self._dropping else self._rest.rfind(b"\n") + 1
        if end:
            whole, self._rest = self._rest[:end], self._rest[end:]
            yield from _split_lines(whole)
        while len(self._rest) > MAX_LINE and not self._dropping:
            piece, self._rest, self._dropping = _cut_piece(self._rest)
            yield Block(clean_bytes(piece) + b"\n", continues=True)
            if self._dropping:
                yield from self._drop()

    def finish(self) -> Iterator[Block]:
        """Yield the last line, which has no newline."""
        if self._dropping:
            yield Block(b"", cut=self._dropped + len(self._rest))
        elif self._rest:
            yield from _split_lines(self._rest + b"\n")

    def _is_plain(self, chunk: bytes) -> bool:
        """True when no line can be oversized and `clean_bytes` would have nothing to do."""
        if self._dropping or len(self._rest) + len(chunk) > MAX_LINE:
            return False
        return not _is_special(chunk) and not _is_special(self._rest)

    def _drop(self) -> Iterator[Block]:
        self._rest, skipped, self._dropping = _skip_to_boundary(self._rest)
        self._dropped += skipped
        if not self._dropping:
            yield Block(b"", cut=self._dropped)
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


def _split_lines(text: bytes) -> Iterator[Block]:
    """Give whole lines; a line above `MAX_LINE` is cut into pieces."""
    if len(text) > MAX_LINE and max(map(len, text.split(b"\n"))) > MAX_LINE:
        yield from _split_oversized(text.removesuffix(b"\n").split(b"\n"))
        return
    yield Block(clean_bytes(text))


def _split_oversized(lines: list[bytes]) -> Iterator[Block]:
    for line in lines:
        rest, cut = line, 0
        while len(rest) > MAX_LINE:
            piece, rest, dropping = _cut_piece(rest)
            yield Block(clean_bytes(piece) + b"\n", continues=True)
            if dropping:
                rest, skipped, still = _skip_to_boundary(rest)
                cut += skipped
                if still:
                    cut, rest = cut + len(rest), b""
        yield Block(clean_bytes(rest) + b"\n", cut=cut)


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

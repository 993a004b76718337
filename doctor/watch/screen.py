"""What the user sees beside the server's output: lines on stderr, and on a terminal one status line below it."""

from __future__ import annotations

import contextlib
import os
import select
import threading
from collections.abc import Callable

from doctor.redact import flatten

_ERASE = b"\r\x1b[K"
_WRITABLE_SECONDS = 0.2


class Screen:
    """Writes to a descriptor (stderr); never waits for a terminal that was halted with Ctrl-S."""

    def __init__(self, descriptor: int, live: bool) -> None:
        self._descriptor = descriptor
        self._live = live
        self._lock = threading.Lock()
        self._shown = False
        self._at_start = True

    def wrap(self, write: Callable[[bytes], None]) -> Callable[[bytes], None]:
        """Make a sink that takes the status line away before it writes."""
        if not self._live:
            return write

        def write_above(data: bytes) -> None:
            with self._lock:
                self._erase()
                write(data)
                self._at_start = data.endswith(b"\n")

        return write_above

    def say(self, text: str) -> None:
        """Write a line of the doctor's own."""
        self.show(f"doctor: {flatten(text)}\n")

    def show(self, text: str) -> None:
        """Write text as it is; it must have been cleaned."""
        taken = self._lock.acquire(timeout=_WRITABLE_SECONDS)
        try:
            self._erase()
            self._emit(("" if self._at_start or not self._live else "\n").encode() + text.encode("utf-8", "replace"))
            self._at_start = True
        finally:
            if taken:
                self._lock.release()

    def draw(self, text: str) -> None:
        """Show the status line, when the output stands at the start of a line."""
        if not self._live or not self._lock.acquire(blocking=False):
            return
        try:
            if self._at_start:
                width = _find_width(self._descriptor)
                self._emit(_ERASE + flatten(text)[: width - 1].encode("utf-8", "replace"))
                self._shown = True
        finally:
            self._lock.release()

    def clear(self) -> None:
        """Take the status line away."""
        with self._lock:
            self._erase()

    def _erase(self) -> None:
        if self._shown:
            self._emit(_ERASE)
            self._shown = False

    def _emit(self, data: bytes) -> None:
        view = memoryview(data)
        with contextlib.suppress(OSError):
            while view and select.select([], [self._descriptor], [], _WRITABLE_SECONDS)[1]:
                view = view[os.write(self._descriptor, view[:4096]) :]


def _find_width(descriptor: int) -> int:
    try:
        return os.get_terminal_size(descriptor).columns or 80
    except OSError:
        return 80

"""Progress on stderr for reads that take more than a second."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator

from doctor.redact import flatten


class Progress:
    """Bytes read of one input, shown on a terminal in a line redrawn twice a second; elsewhere every ten seconds."""

    def __init__(self, name: str, size: int | None) -> None:
        self.total = 0
        self._name = flatten(name)
        self._size = size
        self._terminal = sys.stderr is not None and sys.stderr.isatty()
        self._next = time.monotonic() + 1.0
        self._shown = False

    def count(self, chunks: Iterator[bytes]) -> Iterator[bytes]:
        """Pass chunks on and count them."""
        for chunk in chunks:
            self.total += len(chunk)
            if time.monotonic() >= self._next:
                self._show()
            yield chunk

    def end(self) -> None:
        """Wipe the line off the terminal."""
        if self._shown and self._terminal:
            print("\r\033[K", end="", file=sys.stderr, flush=True)

    def _show(self) -> None:
        self._next = time.monotonic() + (0.5 if self._terminal else 10.0)
        self._shown = True
        of = f" of {self._size / 1e6:,.0f}" if self._size and self._size >= self.total else ""
        line = f"reading {self._name}: {self.total / 1e6:,.0f} MB{of}"
        before, after = ("\r", "\033[K") if self._terminal else ("", "\n")
        print(f"{before}{line}{after}", end="", file=sys.stderr, flush=True)

"""Progress on stderr for reads that take more than a second."""

from __future__ import annotations

import sys
import time
from types import TracebackType


class Progress:
    """A line on a terminal, redrawn twice a second; elsewhere one line every ten seconds."""

    def __init__(self, name: str, size: int | None) -> None:
        self._name = name
        self._size = size
        self._terminal = sys.stderr.isatty()
        self._next = time.monotonic() + 1.0
        self._shown = False

    def __enter__(self) -> Progress:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._shown and self._terminal:
            print("\r\033[K", end="", file=sys.stderr, flush=True)

    def update(self, read: int) -> None:
        """Show how many bytes have been read, when it is time."""
        now = time.monotonic()
        if now < self._next:
            return
        self._next = now + (0.5 if self._terminal else 10.0)
        self._shown = True
        done = f"{read / 1e6:,.0f} MB" + (f" of {self._size / 1e6:,.0f}" if self._size and self._size >= read else "")
        line = f"reading {self._name}: {done}"
        print(
            f"\r{line}\033[K" if self._terminal else line,
            end="" if self._terminal else "\n",
            file=sys.stderr,
            flush=True,
        )

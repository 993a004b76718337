"""The server's output in a folder: one file, rotated by size, that never stops the server."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator

from doctor.errors import DoctorError

NAME = "server.log"
KEPT_FILES = 8
LEAST_SIZE = 64 << 10
_RETRY_SECONDS = 30.0
"""How long after a failed write (disk full) the next one is tried."""


class RotatedLog:
    """Appends bytes to FOLDER/server.log; at `limit` bytes it becomes server.log.1, and so on up to .7.

    Raises DoctorError when the folder cannot be written at the start. Later failures are counted in `lost` and told
    once through `complain`.
    """

    def __init__(self, folder: str, limit: int, complain: Callable[[str], None]) -> None:
        if limit < LEAST_SIZE:
            raise DoctorError(f"a log file of {limit} bytes is too small", "give --log-size 64KiB or more")
        self._path = os.path.join(folder, NAME)
        self._limit = limit
        self._complain = complain
        self._retry_at = 0.0
        self._descriptor = -1
        self._size = 0
        self.lost = 0
        try:
            os.makedirs(folder, exist_ok=True)
            self._open()
        except OSError as error:
            raise DoctorError(
                f"{folder}: the log cannot be written there ({error.strerror})",
                "give another --log-dir, or leave it out",
            ) from error

    def write(self, data: bytes) -> None:
        """Append; what cannot be written is counted, not retried."""
        if self._descriptor < 0 and time.monotonic() < self._retry_at:
            self.lost += len(data)
            return
        try:
            if self._descriptor < 0:
                self._open()
            for piece in self._cut(memoryview(data)):
                self._write_all(piece)
        except OSError as error:
            self._give_up(error, len(data))

    def close(self) -> None:
        """Close the file."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def _open(self) -> None:
        # a log holds what the server prints of its arguments: for the owner only
        self._descriptor = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        self._size = os.fstat(self._descriptor).st_size

    def _cut(self, view: memoryview) -> Iterator[memoryview]:
        """Yield what fits into the file, after a newline where there is one, and rotate in between."""
        while self._size + len(view) > self._limit:
            room = max(self._limit - self._size, 0)
            end = bytes(view[:room]).rfind(b"\n") + 1
            yield view[: end or (room if not self._size else 0)]
            view = view[end or (room if not self._size else 0) :]
            self._rotate()
        yield view

    def _write_all(self, view: memoryview) -> None:
        while view:
            written = os.write(self._descriptor, view)
            self._size += written
            view = view[written:]

    def _rotate(self) -> None:
        self.close()
        for number in range(KEPT_FILES - 1, 0, -1):
            older = self._path if number == 1 else f"{self._path}.{number - 1}"
            if os.path.exists(older):
                os.replace(older, f"{self._path}.{number}")
        self._open()

    def _give_up(self, error: OSError, size: int) -> None:
        if not self.lost:
            self._complain(
                f"{self._path}: {error.strerror}; the output still passes through, but is not all in this file"
            )
        self.lost += size
        self._retry_at = time.monotonic() + _RETRY_SECONDS
        self.close()

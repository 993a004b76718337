"""Pass the server's output through, raw and in order, before anything looks at it."""

from __future__ import annotations

import os
import select
import threading
from collections.abc import Callable

CHUNK = 1 << 20
"""Bytes read at once: as many as the pipe holds, so that one turn of the interpreter lock moves a lot."""

_POLL_SECONDS = 0.2
_F_SETPIPE_SZ = 1031


class Pump(threading.Thread):
    """Reads the pipe until `stop` is called and it is empty; each chunk goes to every sink in turn.

    A sink takes bytes and must neither raise nor wait for long (the terminal may wait, as it would without us).
    """

    def __init__(self, source: int, sinks: tuple[Callable[[bytes], None], ...]) -> None:
        super().__init__(name="pump", daemon=True)
        self._source = source
        self._sinks = sinks
        self._stopping = threading.Event()

    def run(self) -> None:
        """Pump."""
        poller = select.poll()
        poller.register(self._source, select.POLLIN)
        while True:
            last_turn = self._stopping.is_set()
            while poller.poll(0 if last_turn else _POLL_SECONDS * 1000):
                chunk = os.read(self._source, CHUNK)
                if not chunk:
                    return
                for sink in self._sinks:
                    sink(chunk)
            if last_turn:
                return

    def stop(self) -> None:
        """Let it end once the pipe is empty."""
        self._stopping.set()


def widen_pipe(descriptor: int) -> None:
    """Let the pipe hold a whole chunk where the kernel allows it (Linux; 1 MiB is the limit without privileges)."""
    import contextlib
    import fcntl

    with contextlib.suppress(OSError):
        fcntl.fcntl(descriptor, _F_SETPIPE_SZ, CHUNK)


def write_through(descriptor: int) -> Callable[[bytes], None]:
    """Make a sink that writes everything to a descriptor; after the reader has gone it swallows the rest."""
    closed = threading.Event()

    def write(data: bytes) -> None:
        view = memoryview(data)
        while view and not closed.is_set():
            try:
                view = view[os.write(descriptor, view) :]
            except BlockingIOError:
                select.select([], [descriptor], [], 1.0)
            except OSError:
                closed.set()

    return write

"""A second process that outlives a killed doctor just long enough to end the server: nothing stays behind.

It is forked before the first thread starts, and told over a pipe who belongs to the server. When the pipe closes
without a farewell, the doctor is dead.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import time
from typing import Any

_PATIENCE_SECONDS = 3.0
"""From SIGTERM to SIGKILL: nobody is left who would wait for a drained server."""

_KILL_SECONDS = 5.0
_FAREWELL = b"bye\n"


class Guardian:
    """The doctor's end of the pipe. With `keep` the server may stay; its output is then read into the void."""

    def __init__(self, output: int, keep: bool) -> None:
        reader, self._writer = os.pipe()
        self._last = b""
        self.pid = os.fork()
        if self.pid == 0:
            os.close(self._writer)
            _stand_by(reader, output if keep else None)
        os.close(reader)
        os.set_blocking(self._writer, False)

    def tell(self, **news: Any) -> None:
        """Say what changed: `pids` (pid, start) of the server, its temporary `folder`, `shared` memory, `before` it."""
        message = json.dumps(news).encode() + b"\n"
        if message != self._last:
            self._last = message
            # a guardian that was killed, or a full pipe, is no reason to end a server
            with contextlib.suppress(OSError):
                os.write(self._writer, message)

    def dismiss(self) -> None:
        """Say good-bye and wait for its end."""
        with contextlib.suppress(OSError):
            os.write(self._writer, _FAREWELL)
        os.close(self._writer)
        with contextlib.suppress(ChildProcessError):
            os.waitpid(self.pid, 0)


def _stand_by(reader: int, output: int | None) -> None:
    """Be the guardian: wait for the end of the pipe, act, and never return."""
    code = 1
    try:
        os.setsid()
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        _close_others({reader, 2, *([] if output is None else [output])})
        last = _read_to_end(reader)
        if last is not None:
            if output is not None:
                _drain(output)  # ends with the last process that holds the other end
            end_server(last)
        code = 0
    finally:
        os._exit(code)


def _close_others(kept: set[int]) -> None:
    """Let go of the doctor's files, or its output would never end for whoever reads it."""
    for name in os.listdir("/proc/self/fd"):
        if int(name) not in kept:
            with contextlib.suppress(OSError):
                os.close(int(name))


def _read_to_end(reader: int) -> dict[str, Any] | None:
    """Give all news, later over earlier; None after a farewell."""
    rest, known = b"", dict[str, Any]()
    while chunk := os.read(reader, 1 << 16):
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            if line + b"\n" == _FAREWELL:
                return None
            with contextlib.suppress(ValueError):
                known.update(json.loads(line))
    return known


def end_server(known: dict[str, Any]) -> None:
    """End the processes that are known and whoever came to their sessions, then remove what they left."""
    from doctor.watch.leftovers import Leftovers

    left = Leftovers(known.get("folder", ""), known.get("before", {}), known.get("shared"))
    pids = {(int(pid), int(start)) for pid, start in known.get("pids", ())}
    left.note(pid for pid, _ in pids)
    for number, patience in ((signal.SIGTERM, _PATIENCE_SECONDS), (signal.SIGKILL, _KILL_SECONDS)):
        _signal_all(pids, number)
        deadline = time.monotonic() + patience
        while _find_alive(pids) and time.monotonic() < deadline:
            time.sleep(0.05)
    left.remove()


def _signal_all(pids: set[tuple[int, int]], number: int) -> None:
    """Ask the main process, which then ends the others; kill every one."""
    alive = _find_alive(pids)
    for pid in alive if number == signal.SIGKILL else alive[:1]:
        with contextlib.suppress(OSError):
            os.kill(pid, number)


def _find_alive(pids: set[tuple[int, int]]) -> list[int]:
    """List who of them lives, main process first, and add their descendants."""
    from doctor.watch.tree import Tree, read_stat

    alive = []
    for pid, start in sorted(pids, key=lambda identity: identity[1]):
        stat = read_stat(pid)
        if stat and stat.start == start and stat.state != "Z":
            alive.append(pid)
    for pid in alive:
        pids.update(member.identity for member in Tree(pid).scan() if member.is_alive)
    return alive


def _drain(output: int) -> None:
    """Read a kept server's output, so that it neither blocks nor sees a broken pipe."""
    while os.read(output, 1 << 20):
        pass

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
from collections.abc import Callable, Iterable
from typing import Any

_PATIENCE_SECONDS = 3.0
"""From SIGTERM to SIGKILL: nobody is left who would wait for a drained server."""

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

    def tell(self, pids: Iterable[tuple[int, int]], paths: Iterable[str]) -> None:
        """Say who belongs to the server (pid and start) and which files to remove after it."""
        message = json.dumps({"pids": sorted(pids), "paths": sorted(paths)}).encode() + b"\n"
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
            if output is None:
                end_server(last)
            else:
                _drain(output)
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
    """Give the last message; None after a farewell."""
    rest, last = b"", b"{}"
    while chunk := os.read(reader, 1 << 16):
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            if line + b"\n" == _FAREWELL:
                return None
            last = line
    try:
        found: dict[str, Any] = json.loads(last)
    except ValueError:
        return {}
    return found


def end_server(last: dict[str, Any], sleep: Callable[[float], None] = time.sleep) -> None:
    """End the processes of the last message and whoever came to their sessions, then remove its files."""
    import shutil

    from doctor.watch.tree import Tree, read_stat

    pids = [(int(pid), int(start)) for pid, start in last.get("pids", ())]
    for number, patience in ((signal.SIGTERM, _PATIENCE_SECONDS), (signal.SIGKILL, 1.0)):
        deadline = time.monotonic() + patience
        while time.monotonic() < deadline:
            alive = [
                pid for pid, start in pids if (stat := read_stat(pid)) and stat.start == start and stat.state != "Z"
            ]
            if not alive:
                break
            trees = [Tree(pid) for pid in alive]
            everyone = {member.identity for tree in trees for member in tree.scan() if member.is_alive}
            pids = sorted({*pids, *everyone})
            for pid, _ in everyone if number == signal.SIGKILL else sorted(everyone)[:1]:
                with contextlib.suppress(OSError):
                    os.kill(pid, number)
            sleep(0.2)
    for path in last.get("paths", ()):
        if os.path.isdir(path):
            shutil.rmtree(path, ignore_errors=True)
        else:
            with contextlib.suppress(OSError):
                os.unlink(path)


def _drain(output: int) -> None:
    """Read a kept server's output, so that it neither blocks nor sees a broken pipe."""
    while os.read(output, 1 << 20):
        pass

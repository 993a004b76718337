"""Run what may hang or abort: a child in its own process group, with a deadline and bounded output."""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from typing import NamedTuple

MAX_OUTPUT = 4 << 20
"""Bytes of each stream that are kept; the list of a thousand distributions takes 0.1 MB."""

_TICK = 0.02
"""Seconds between two looks at a child that has closed nothing yet; a healthy one costs at most one of them."""


class Done(NamedTuple):
    """How a child ended: `code` is None when it had to be killed or never started, and `reason` says why."""

    code: int | None
    out: str
    err: str
    reason: str = ""

    @property
    def is_good(self) -> bool:
        """Whether it ended by itself with code 0."""
        return self.code == 0

    @property
    def trouble(self) -> str:
        """What went wrong in words, empty when nothing did."""
        if self.reason or self.code == 0:
            return self.reason
        if self.code is not None and self.code < 0:
            return f"it was killed by {name_signal(-self.code)}"
        last = [line.strip() for line in self.err.splitlines() if line.strip()][-1:]
        return f"it ended with code {self.code}" + (f": {last[0][:300]}" if last else "")


class Clock(NamedTuple):
    """When the whole check must be over (time.monotonic seconds), and the event that ends it early."""

    deadline: float
    stop: threading.Event

    @property
    def left(self) -> float:
        """Seconds left, 0 when the check was stopped."""
        return 0.0 if self.stop.is_set() else max(0.0, self.deadline - time.monotonic())


def start_clock(seconds: float) -> Clock:
    """Start a clock that runs out after some seconds."""
    return Clock(time.monotonic() + seconds, threading.Event())


def name_signal(number: int) -> str:
    """Return SIGSEGV for 11."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def run_child(argv: Sequence[str], seconds: float, environment: Mapping[str, str], clock: Clock) -> Done:
    """Run a program and give its end; after `seconds` or at the clock's end it is killed with its group.

    A child in an uninterruptible wait (a wedged driver) cannot be killed: it is left behind, not waited for.
    """
    limit = min(seconds, clock.left)
    if limit <= 0:
        return Done(None, "", "", "no time was left")
    try:
        process = subprocess.Popen(
            list(argv),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=dict(environment),
            start_new_session=True,
        )
    except (OSError, ValueError, MemoryError) as error:
        why = getattr(error, "strerror", None) or str(error) or "no memory"
        return Done(None, "", "", f"{argv[0]} did not start: {why}")
    streams, in_time = _collect(process, time.monotonic() + limit, clock)
    code = _end(process)
    out, err = (bytes(stream).decode("utf-8", "replace") for stream in streams)
    if in_time:
        return Done(code, out, err)
    reason = f"{os.path.basename(argv[0])} gave no answer within {limit:.0f} s"
    return Done(None, out, err, "the check was stopped" if clock.stop.is_set() else reason)


def _collect(process: subprocess.Popen[bytes], deadline: float, clock: Clock) -> tuple[list[bytearray], bool]:
    """Read both streams until the child is dead and silent; False when time ran out."""
    buffers = [bytearray(), bytearray()]
    with selectors.DefaultSelector() as selector:
        for stream, buffer in zip((process.stdout, process.stderr), buffers, strict=True):
            if stream is not None:
                os.set_blocking(stream.fileno(), False)
                selector.register(stream, selectors.EVENT_READ, buffer)
        while not clock.stop.is_set() and time.monotonic() < deadline:
            ready = selector.select(_TICK) if selector.get_map() else []
            for key, _ in ready:
                if not _read(key.fd, key.data):
                    selector.unregister(key.fileobj)
            if _has_ended(process.pid):
                # a grandchild may hold the pipes open: one more read takes what the child itself wrote
                for key in list(selector.get_map().values()):
                    _read(key.fd, key.data)
                return buffers, True
            if not selector.get_map():
                time.sleep(_TICK / 4)
    return buffers, False


def _read(descriptor: int, buffer: bytearray) -> bool:
    """Read what is there; False at the end of the stream."""
    while True:
        try:
            chunk = os.read(descriptor, 1 << 16)
        except BlockingIOError:
            return True
        except OSError:
            return False
        if not chunk:
            return False
        buffer += chunk[: max(0, MAX_OUTPUT - len(buffer))]
        if len(chunk) < 1 << 16:
            return True


def _has_ended(pid: int) -> bool:
    """Tell whether a child is dead, without reaping it: its id then still names its group."""
    try:
        return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
    except ChildProcessError:
        return True


def _end(process: subprocess.Popen[bytes]) -> int | None:
    """Kill what is left of the group, and reap the child if it lets itself be killed."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    try:
        code: int | None = process.wait(timeout=1)
    except subprocess.TimeoutExpired:
        code = None
        process.returncode = 0  # keeps subprocess from waiting for it again at the interpreter's end
    for stream in (process.stdout, process.stderr):
        if stream is not None:
            stream.close()
    return code

"""Watch memory in a thread of its own and halt the server before the kernel's OOM killer or a frozen desktop does."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable

from doctor.memory.units import GIB
from doctor.watch.host import Memory, count_kills, find_cgroup, find_pause, find_reserve, must_act, read_memory

_FOLLOW_SECONDS = 1.0
"""Between two looks at which cgroup the server is in: a wrapper (systemd-run, cgexec) may move it."""


class Guard(threading.Thread):
    """Samples every 50 to 500 ms; calls `halt` with the reason once, when it must act.

    `halt` freezes the server at once (SIGSTOP): memory is taken faster than a tidy end takes.
    """

    def __init__(self, reserve: int | None, halt: Callable[[str], None]) -> None:
        super().__init__(name="guard", daemon=True)
        self._cgroup = find_cgroup()
        self._kills = count_kills(self._cgroup) or 0
        self._pid: int | None = None
        self._followed = 0.0
        self._asked = reserve
        self._halt = halt
        self._stopping = threading.Event()
        self._armed = True
        self.samples: deque[Memory] = deque([read_memory(time.monotonic(), self._cgroup)], maxlen=64)
        self.curve: deque[Memory] = deque(maxlen=600)

    @property
    def reserve(self) -> int:
        """The bytes to keep free: as asked, else by the size of what limits."""
        return find_reserve(self.samples[-1].total) if self._asked is None else self._asked

    @property
    def kills(self) -> int:
        """The kernel's kills in the server's cgroup since it was found there."""
        return max((count_kills(self._cgroup) or 0) - self._kills, 0)

    @property
    def memory(self) -> Memory:
        """The newest sample."""
        return self.samples[-1]

    def run(self) -> None:
        """Watch until `stop`."""
        while not self._stopping.wait(find_pause(self.samples, self.reserve)):
            self._follow(time.monotonic())
            self.samples.append(read_memory(time.monotonic(), self._cgroup))
            if not self.curve or self.memory.time - self.curve[-1].time >= 1.0:
                self.curve.append(self.memory)
            if reason := must_act(self.samples, self.reserve):
                self.act(reason)

    def describe(self) -> str:
        """Write the limit and the curve: a sample a second, and the last ones as they came."""
        rows = [
            f"{one.time:.1f} s: {one.available / GIB:.2f} GiB available, pressure {one.pressure:.0f} %"
            for one in sorted({*self.curve, *self.samples})
        ]
        now = self.memory
        head = f"limit: {now.limit}, {now.total / GIB:.2f} GiB; reserve {self.reserve / GIB:.2f} GiB"
        return "\n".join([head, *rows]) + "\n"

    def look(self) -> int:
        """Give the bytes available at this moment."""
        return read_memory(time.monotonic(), self._cgroup).available

    def act(self, reason: str) -> None:
        """Halt the server once, unless the guard is off."""
        if self._armed and self.reserve:
            self._armed = False
            self._halt(reason)

    def _follow(self, now: float) -> None:
        """Look for the cgroup of the server's main process, while it has one."""
        if self._pid is None or now - self._followed < _FOLLOW_SECONDS:
            return
        self._followed = now
        found = find_cgroup(self._pid)
        if found.folders and found != self._cgroup:
            self._cgroup, self._kills = found, count_kills(found) or 0
            self.samples.clear()
            self.samples.append(read_memory(now, found))

    def arm(self, pid: int) -> None:
        """Be ready for a server; what was seen of the last one is forgotten."""
        self._pid, self._followed = pid, 0.0
        self._kills = count_kills(self._cgroup) or 0
        self.samples.append(read_memory(time.monotonic(), self._cgroup))
        while len(self.samples) > 1:
            self.samples.popleft()
        self._armed = True

    def stop(self) -> None:
        """End the thread."""
        self._stopping.set()

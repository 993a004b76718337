"""Watch memory in a thread of its own and halt the server before the kernel's OOM killer or a frozen desktop does."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable

from doctor.watch.host import Cgroup, Memory, find_pause, find_reserve, must_act, read_memory


class Guard(threading.Thread):
    """Samples every 50 to 500 ms; calls `halt` with the reason once, when it must act.

    `halt` freezes the server at once (SIGSTOP): memory is taken faster than a tidy end takes.
    """

    def __init__(self, cgroup: Cgroup, reserve: int | None, halt: Callable[[str], None]) -> None:
        super().__init__(name="guard", daemon=True)
        self._cgroup = cgroup
        self._halt = halt
        self._stopping = threading.Event()
        self._armed = True
        self.samples: deque[Memory] = deque([read_memory(time.monotonic(), cgroup)], maxlen=64)
        self.curve: deque[Memory] = deque(maxlen=600)
        self.reserve = find_reserve(self.samples[-1].total) if reserve is None else reserve

    @property
    def memory(self) -> Memory:
        """The newest sample."""
        return self.samples[-1]

    def run(self) -> None:
        """Watch until `stop`."""
        while not self._stopping.wait(find_pause(self.samples, self.reserve)):
            self.samples.append(read_memory(time.monotonic(), self._cgroup))
            if not self.curve or self.memory.time - self.curve[-1].time >= 1.0:
                self.curve.append(self.memory)
            reason = must_act(self.samples, self.reserve) if self._armed and self.reserve else ""
            if reason:
                self._armed = False
                self._halt(reason)

    def arm(self) -> None:
        """Be ready for the next server; what was seen of the last one is forgotten."""
        self.samples.append(read_memory(time.monotonic(), self._cgroup))
        while len(self.samples) > 1:
            self.samples.popleft()
        self._armed = True

    def stop(self) -> None:
        """End the thread."""
        self._stopping.set()

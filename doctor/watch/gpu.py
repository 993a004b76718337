"""GPU samples from a child process: a wedged driver hangs the child, never the doctor."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from typing import Any, NamedTuple

_PROGRAM = """
import json, sys, time, pynvml
pynvml.nvmlInit()
handles = [pynvml.nvmlDeviceGetHandleByIndex(n) for n in range(pynvml.nvmlDeviceGetCount())]
while True:
    rows = []
    for handle in handles:
        memory = pynvml.nvmlDeviceGetMemoryInfo(handle)
        row = {"used": memory.used, "total": memory.total}
        try:
            row["busy"] = pynvml.nvmlDeviceGetUtilizationRates(handle).gpu
            row["watts"] = pynvml.nvmlDeviceGetPowerUsage(handle) / 1000
            row["pids"] = [one.pid for one in pynvml.nvmlDeviceGetComputeRunningProcesses(handle)]
        except pynvml.NVMLError as error:
            row["error"] = str(error)
        rows.append(row)
    print(json.dumps(rows), flush=True)
    time.sleep(2)
"""

SLACK_BYTES = 1 << 30
"""Memory above the figure before the start that is still called free: a driver's own use varies by some 100 MB."""

_STALE_SECONDS = 15.0


class GpuSample(NamedTuple):
    """All GPUs at one moment: bytes in use and in all, and per GPU what NVML said."""

    time: float
    used: int
    total: int
    rows: tuple[dict[str, Any], ...]


class GpuWatch:
    """Samples every 2 s while a server is watched; without an NVIDIA driver there is never a sample."""

    def __init__(self, device: str = "/dev/nvidiactl") -> None:
        self.sample: GpuSample | None = None
        self._before: GpuSample | None = None
        self._child: subprocess.Popen[bytes] | None = None
        if os.path.exists(device):
            self._child = subprocess.Popen(
                [sys.executable, "-c", _PROGRAM], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
            )
            threading.Thread(target=self._read, name="gpu", daemon=True).start()

    def mark(self) -> None:
        """Remember what is in use before the server starts."""
        self._before = self.sample

    def describe_held(self) -> str:
        """Say what is held beyond the mark, "" when nothing is, or when nothing is known."""
        now, before = self.sample, self._before
        if now is None or before is None or time.monotonic() - now.time > _STALE_SECONDS:
            return ""
        held = now.used - before.used
        return f"{held / 2**30:.1f} GiB of GPU memory are still held" if held > SLACK_BYTES else ""

    def stop(self) -> None:
        """End the child."""
        if self._child is not None:
            self._child.kill()
            self._child.wait()

    def _read(self) -> None:
        stream = self._child.stdout if self._child else None
        for line in stream or ():
            try:
                rows = tuple(json.loads(line[: 1 << 16]))
            except ValueError:
                continue
            used, total = (sum(int(row[name]) for row in rows) for name in ("used", "total"))
            self.sample = GpuSample(time.monotonic(), used, total, rows)

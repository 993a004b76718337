"""GPU samples from a child process: a wedged driver hangs the child, never the doctor."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from doctor.memory.units import GIB

_PROGRAM = """
import json, time, pynvml
pynvml.nvmlInit()
handles = [pynvml.nvmlDeviceGetHandleByIndex(n) for n in range(pynvml.nvmlDeviceGetCount())]
while True:
    rows = []
    for handle in handles:
        memory = pynvml.nvmlDeviceGetMemoryInfo(handle)
        row = {"used": memory.used, "total": memory.total}
        try:
            row["busy"] = pynvml.nvmlDeviceGetUtilizationRates(handle).gpu
            row["watts"] = pynvml.nvmlDeviceGetPowerUsage(handle) // 1000
            held = pynvml.nvmlDeviceGetComputeRunningProcesses(handle)
            row["holders"] = {one.pid: one.usedGpuMemory or 0 for one in held}
        except pynvml.NVMLError as error:
            row["error"] = str(error)
        rows.append(row)
    print(json.dumps(rows), flush=True)
    time.sleep(2)
"""

SLACK_BYTES = 1 << 30
"""Memory above the figure before the start that is still called free: a driver's own use varies by some 100 MB."""

_STALE_SECONDS = 15.0
_MOST_LINE = 1 << 18


class Gpu(NamedTuple):
    """One GPU: bytes in use and in all, bytes by process id, busy in per cent and watts (None: not told), an error."""

    used: int
    total: int
    holders: Mapping[int, int] = {}
    busy: int | None = None
    watts: int | None = None
    error: str = ""


class GpuSample(NamedTuple):
    """All GPUs at one moment of the monotonic clock."""

    time: float
    gpus: tuple[Gpu, ...]

    @property
    def used(self) -> int:
        """Bytes in use on all GPUs."""
        return sum(gpu.used for gpu in self.gpus)


class GpuWatch:
    """Samples every 2 s while a server is watched; without an NVIDIA driver there is never a sample."""

    def __init__(self, device: str = "/dev/nvidiactl") -> None:
        self.sample: GpuSample | None = None
        self._before: GpuSample | None = None
        self._own: set[int] = set()
        self._is_ours_named = False
        self._child: subprocess.Popen[bytes] | None = None
        if os.path.exists(device):
            self._child = subprocess.Popen(
                [sys.executable, "-c", _PROGRAM], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
            )
            threading.Thread(target=self._read, name="gpu", daemon=True).start()

    def mark(self) -> None:
        """Remember what is in use before the server starts."""
        self._before, self._own, self._is_ours_named = self.sample, set(), False

    def note(self, pids: Iterable[int]) -> None:
        """Take note of the server's processes."""
        self._own.update(pids)
        if self.sample and any(pid in gpu.holders for gpu in self.sample.gpus for pid in self._own):
            self._is_ours_named = True

    def describe_held(self) -> str:
        """Say what the last server still holds, "" when nothing, or when nothing is known."""
        now, before = self.sample, self._before
        if now is None or before is None or time.monotonic() - now.time > _STALE_SECONDS:
            return ""
        # inside a container NVML may name no process, or the host's ids: then all that came since counts as ours
        others = measure_others(now, self._own) - measure_others(before, self._own) if self._is_ours_named else 0
        held = now.used - before.used - others
        return f"{held / GIB:.1f} GiB of GPU memory are still held" if held > SLACK_BYTES else ""

    def measure(self) -> tuple[int, int]:
        """Give the bytes in use and in all of the GPUs that the server uses; of all GPUs where that is not known."""
        gpus = self.sample.gpus if self.sample else ()
        ours = [gpu for gpu in gpus if not self._own.isdisjoint(gpu.holders)] or gpus
        return sum(gpu.used for gpu in ours), sum(gpu.total for gpu in ours)

    def stop(self) -> None:
        """End the child."""
        if self._child is not None:
            self._child.kill()
            self._child.wait()

    def _read(self) -> None:
        stream = self._child.stdout if self._child else None
        for line in stream or ():
            self.keep(read_sample(line, time.monotonic()))

    def keep(self, sample: GpuSample | None) -> None:
        """Take a sample; the first one comes some seconds after the start, well before a server opens a GPU."""
        self.sample = sample or self.sample
        self._before = self._before or self.sample


def read_sample(line: bytes, now: float) -> GpuSample | None:
    """Read a line of the child; None when it is broken."""
    try:
        return GpuSample(now, tuple(_read_gpu(row) for row in json.loads(line[:_MOST_LINE])))
    except (ValueError, TypeError, KeyError, AttributeError):
        return None


def _read_gpu(row: Mapping[str, Any]) -> Gpu:
    holders = {int(pid): int(size) for pid, size in row.get("holders", {}).items()}
    return Gpu(
        int(row["used"]), int(row["total"]), holders, row.get("busy"), row.get("watts"), str(row.get("error", ""))
    )


def measure_others(sample: GpuSample, own: set[int]) -> int:
    """Give the bytes held by processes that are not the server's."""
    return sum(size for gpu in sample.gpus for pid, size in gpu.holders.items() if pid not in own)


def describe(sample: GpuSample | None) -> Iterator[str]:
    """Write a line for each GPU."""
    for number, gpu in enumerate(sample.gpus if sample else ()):
        parts = [f"{gpu.used / GIB:.2f} of {gpu.total / GIB:.2f} GiB in use"]
        parts += [f"{gpu.busy} % busy"] if gpu.busy is not None else []
        parts += [f"{gpu.watts} W"] if gpu.watts is not None else []
        parts += [f"pid {pid}: {size / GIB:.2f} GiB" for pid, size in sorted(gpu.holders.items())]
        parts += [gpu.error] if gpu.error else []
        yield f"GPU {number}: {', '.join(parts)}"

"""Look at the machine a plan is for: GPUs in a child with a deadline, memory by psutil."""

from __future__ import annotations

import json
import subprocess
import sys

from doctor.memory.gpus import Gpu, Machine

_NVML_SECONDS = 10
"""A wedged driver can hang NVML for ever; a healthy one answers within a second."""

_PROGRAM = """
import json, pynvml
pynvml.nvmlInit()
found = []
for index in range(pynvml.nvmlDeviceGetCount()):
    device = pynvml.nvmlDeviceGetHandleByIndex(index)
    memory = pynvml.nvmlDeviceGetMemoryInfo(device)
    name = pynvml.nvmlDeviceGetName(device)
    name = name if isinstance(name, str) else name.decode()
    found.append([name, memory.total, memory.free, pynvml.nvmlDeviceGetCudaComputeCapability(device)])
print(json.dumps(found))
"""


def look_at_machine(gpus: int | None = None) -> Machine:
    """Describe this machine; without a readable GPU `Machine.gpu` is None."""
    import psutil

    memory = psutil.virtual_memory()
    found = list_gpus()
    if not found:
        return Machine(None, gpus or 1, ram=memory.total, ram_available=memory.available)
    name, total, _, capability = found[0]
    gpu = Gpu(name, total // 2**20, total, (capability[0], capability[1]))
    free = min(row[2] for row in found)
    return Machine(gpu, gpus or len(found), free, memory.total, memory.available)


def list_gpus() -> list[tuple[str, int, int, list[int]]]:
    """List name, total and free bytes and compute capability of every GPU; empty when they cannot be read."""
    try:
        done = subprocess.run(
            [sys.executable, "-c", _PROGRAM], capture_output=True, text=True, timeout=_NVML_SECONDS, check=True
        )
        return [tuple(row) for row in json.loads(done.stdout)]
    except (OSError, subprocess.SubprocessError, ValueError):
        return []

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
    """Describe this machine by its smallest GPU; without a readable one `Machine.gpu` is None."""
    import psutil

    memory = psutil.virtual_memory()
    found = list_gpus()
    if not found:
        return Machine(None, gpus or 1, ram=memory.total, ram_available=memory.available)
    name, total, _, capability = min(found, key=lambda row: row[1])
    gpu = Gpu(name, total // 2**20, total, (capability[0], capability[1]))
    free = min(row[2] for row in found)
    return Machine(gpu, gpus or len(found), free, memory.total, memory.available)


def list_gpus() -> list[tuple[str, int, int, list[int]]]:
    """List name, total and free bytes and compute capability of every GPU; empty when they cannot be read.

    A child that a wedged driver keeps from dying is left behind, not waited for. It works on Windows, too, where the
    check's own way of running children does not.
    """
    command = [sys.executable, "-c", _PROGRAM]
    try:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    except OSError:
        return []
    try:
        text, _ = process.communicate(timeout=_NVML_SECONDS)
        return [tuple(row) for row in json.loads(text)]
    except subprocess.TimeoutExpired:
        process.kill()
        process.returncode = 0  # keeps subprocess from waiting for it at the interpreter's end
        return []
    except ValueError:
        return []
    finally:
        if process.stdout is not None:
            process.stdout.close()

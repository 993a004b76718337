"""Child program: ask NVML for the driver and every device, printing each answer at once."""

from __future__ import annotations

import importlib
import json
from typing import Any

# Uncorrected errors since the driver was loaded (NVML's numbers, nvml.h).
_UNCORRECTED, _VOLATILE = 1, 0
_MAX_LINKS = 18
# NVML counts devices that a control group (Slurm's, a container's) closes to this process, and refuses to open them.
_NO_PERMISSION = 4


def main() -> None:
    """Print the driver, then the devices."""
    nvml = importlib.import_module("pynvml")
    nvml.nvmlInit()
    cuda = ask(nvml, "nvmlSystemGetCudaDriverVersion_v2")
    count = nvml.nvmlDeviceGetCount()
    say(driver=decode(ask(nvml, "nvmlSystemGetDriverVersion")), cuda=cuda, count=count)
    for index in range(count):
        say(device={"index": index, **describe(nvml, index)})


def say(**found: Any) -> None:
    """Print one object."""
    print(json.dumps(found), flush=True)


def decode(text: Any) -> Any:
    """Return text for the bytes that older versions give."""
    return text.decode("utf-8", "replace") if isinstance(text, bytes) else text


def ask(nvml: Any, name: str, *arguments: Any) -> Any:
    """Call an NVML function; None where this driver or this library does not have it."""
    try:
        return getattr(nvml, name)(*arguments)
    except (AttributeError, nvml.NVMLError):
        return None


def describe(nvml: Any, index: int) -> dict[str, Any]:
    """Describe one device; what it does not tell is None."""
    try:
        handle = nvml.nvmlDeviceGetHandleByIndex(index)
    except nvml.NVMLError as error:
        return {"error": str(error), "closed": error.value == _NO_PERMISSION}
    memory = ask(nvml, "nvmlDeviceGetMemoryInfo", handle)
    return {
        "name": decode(ask(nvml, "nvmlDeviceGetName", handle)),
        "uuid": decode(ask(nvml, "nvmlDeviceGetUUID", handle)),
        "capability": ask(nvml, "nvmlDeviceGetCudaComputeCapability", handle),
        "total": getattr(memory, "total", None),
        "free": getattr(memory, "free", None),
        "pci": decode(getattr(ask(nvml, "nvmlDeviceGetPciInfo", handle), "busId", None)),
        "minor": ask(nvml, "nvmlDeviceGetMinorNumber", handle),
        "processes": list_processes(nvml, handle),
        "ecc_errors": ask(nvml, "nvmlDeviceGetTotalEccErrors", handle, _UNCORRECTED, _VOLATILE),
        "retire_pending": ask(nvml, "nvmlDeviceGetRetiredPagesPendingStatus", handle),
        "remapped": ask(nvml, "nvmlDeviceGetRemappedRows", handle),
        "persistence": ask(nvml, "nvmlDeviceGetPersistenceMode", handle),
        "compute_mode": ask(nvml, "nvmlDeviceGetComputeMode", handle),
        "mig": ask(nvml, "nvmlDeviceGetMigMode", handle),
        "mig_devices": list_slices(nvml, handle),
        "recovery": ask_recovery(nvml, handle),
        **describe_fabric(nvml, handle),
    }


def list_processes(nvml: Any, handle: Any) -> list[list[int]] | None:
    """List pid and bytes of the processes that compute or draw on a device."""
    kinds = ("nvmlDeviceGetComputeRunningProcesses", "nvmlDeviceGetGraphicsRunningProcesses")
    lists = [found for name in kinds if (found := ask(nvml, name, handle)) is not None]
    sizes = {process.pid: process.usedGpuMemory or 0 for found in reversed(lists) for process in found}
    return [[pid, size] for pid, size in sizes.items()] if lists else None


def list_slices(nvml: Any, handle: Any) -> list[str]:
    """List the UUIDs of a device's MIG slices."""
    slices = []
    for index in range(ask(nvml, "nvmlDeviceGetMaxMigDeviceCount", handle) or 0):
        found = ask(nvml, "nvmlDeviceGetMigDeviceHandleByIndex", handle, index)
        if found is not None:
            slices.append(decode(ask(nvml, "nvmlDeviceGetUUID", found)))
    return slices


def ask_recovery(nvml: Any, handle: Any) -> int | None:
    """Return NVML's recovery action: 0 none, 1 reset, 2 reboot, 3 drain (R570 and later)."""
    field = getattr(nvml, "NVML_FI_DEV_GET_GPU_RECOVERY_ACTION", None)
    values = None if field is None else ask(nvml, "nvmlDeviceGetFieldValues", handle, [field])
    if not values or values[0].nvmlReturn != 0:
        return None
    return int(values[0].value.uiVal)


def describe_fabric(nvml: Any, handle: Any) -> dict[str, Any]:
    """Return the state of NVLink and of the NVSwitch fabric (0 unsupported, 1 not started, 2 running, 3 done)."""
    links = [ask(nvml, "nvmlDeviceGetNvLinkState", handle, link) for link in range(_MAX_LINKS)]
    known = [state for state in links if state is not None]
    fabric = None
    if hasattr(nvml, "c_nvmlGpuFabricInfo_t"):
        info = nvml.c_nvmlGpuFabricInfo_t()
        if ask(nvml, "nvmlDeviceGetGpuFabricInfo", handle, importlib.import_module("ctypes").byref(info)) is not None:
            fabric = [int(info.state), int(info.status)]
    return {"links": len(known), "links_up": sum(known), "fabric": fabric}


if __name__ == "__main__":
    main()

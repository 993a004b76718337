"""Who holds GPU memory already: what a launch finds free decides how large its KV cache gets."""

from __future__ import annotations

from collections.abc import Iterator

from doctor.memory.units import GIB, format_size
from doctor.probes.base.context import Context
from doctor.probes.base.devices import Device, list_devices, list_used
from doctor.probes.base.files import exists
from doctor.probes.base.result import Result, make_error, make_ok, make_unknown, make_void, make_warning

NAME = "gpu-processes"
GROUP = "gpu"
SUMMARY = "the GPUs are free"
NEEDS = ("gpus",)
INSIDE = False

# The driver itself takes 0.5 to 0.9 GiB on an H200 with nothing running (nvidia-smi on the recording machine).
_IDLE = GIB
# Above this share hardly anything fits beside it; below the other one (a desktop, a monitor) the KV cache is a
# little smaller, since SGLang's fraction is of what it finds free.
_HALF, _LITTLE = 0.5, 0.1
_OFF = {
    "SGLANG_ENABLE_TP_MEMORY_INBALANCE_CHECK": ("0", "false"),
    "SGL_DISABLE_TP_MEMORY_INBALANCE_CHECK": ("1", "true"),
}
"""What turns SGLang's own comparison off: the first from 0.5.8 on, the second up to 0.5.6 (srt/environ.py)."""
_UNBALANCED = 0.10
"""get_available_gpu_memory's own limit between ranks (SGLang 0.4.6 to 0.5.23)."""


def probe(context: Context) -> Iterator[Result]:
    """Yield the GPUs of this launch whose memory others hold."""
    devices = [device for device in list_used(context) if device.total and device.free is not None]
    if not list_devices(context):
        yield make_void(NAME, "no NVIDIA GPU to look at")
        return
    if not devices:
        yield make_unknown(NAME, SUMMARY, "no whole GPU of this launch can be told, or its memory is not known")
        return
    busy = [device for device in devices if count_taken(device) > _IDLE]
    for device in busy:
        yield describe_busy(context, device)
    if not busy:
        yield make_ok(NAME, f"nothing else holds memory of the {len(devices)} GPU(s)")
    yield from check_balance(context, devices)


def count_taken(device: Device) -> int:
    """Return the bytes that are not free."""
    return (device.total or 0) - (device.free or 0)


def describe_busy(context: Context, device: Device) -> Result:
    """Say who holds a GPU and what to do."""
    taken, total = count_taken(device), device.total or 1
    holders = [pair for pair in device.raw.get("processes") or () if isinstance(pair, list) and len(pair) == 2]
    evidence = [f"{format_size(device.free or 0)} of {format_size(total)} free"]
    evidence += [describe_holder(context, pid, size) for pid, size in holders[:8]]
    here = [pid for pid, _ in holders if exists(context.root, f"/proc/{pid}")]
    fixes = [suggest_kill(context, pid) for pid in here[:8]]
    if not fixes and context.is_wsl:
        fixes = ["close what uses the GPU on Windows: Task Manager, Details, column Dedicated GPU memory"]
    elif not fixes:
        evidence.append("the holder is not visible from here: another container or another user")
        fixes = [f"sudo fuser -v /dev/nvidia{device.raw.get('minor', device.number)}   # on the host"]
    free = [other.number for other in list_devices(context) if other.free and count_taken(other) <= _IDLE]
    if free and context.launch is not None:
        fixes.append(f"CUDA_VISIBLE_DEVICES={','.join(map(str, free))}   # these are free")
    summary = f"other processes hold {format_size(taken)} of GPU {device.number}"
    severe = make_error if context.launch is not None and taken > _HALF * total else make_warning
    found = severe(NAME, summary, tuple(evidence), tuple(fixes))
    # nobody should end a desktop for so little
    return found if taken > _LITTLE * total else found._replace(severity="info", fixes=())


def describe_holder(context: Context, pid: int, size: int) -> str:
    """Describe a process that holds GPU memory."""
    return f"pid {pid} {name_process(context, pid)}" + (f" holds {format_size(size)}" if size else "")


def suggest_kill(context: Context, pid: int) -> str:
    """Return the command that ends a holder; a zombie holds on until its parent collects it."""
    fields = (context.read(f"/proc/{pid}/stat") or "").rpartition(")")[2].split()
    if fields[:1] == ["Z"] and len(fields) > 1:
        return f"kill {fields[1]}   # the parent of pid {pid}, which is dead and was not collected"
    return f"kill {pid}   # {name_process(context, pid)}"


def name_process(context: Context, pid: int) -> str:
    """Return a process's command line as far as it tells who it is."""
    line = (context.read(f"/proc/{pid}/cmdline") or "").replace("\0", " ").strip()
    return line[:120] or (context.read(f"/proc/{pid}/comm") or "not visible here").strip()


def check_balance(context: Context, devices: list[Device]) -> Iterator[Result]:
    """Yield replicas whose ranks would find different amounts free; SGLang compares with tensor parallelism only."""
    if context.launch is None or context.count("tp_size") < 2 or any(is_off(context, name) for name in _OFF):
        return
    size = max(1, context.count("tp_size") * context.count("pp_size") // context.count("nnodes"))
    for start in range(0, len(devices), size):
        group = devices[start : start + size]
        free = [device.free or 0 for device in group]
        if min(free) < (1 - _UNBALANCED) * max(free):
            evidence = tuple(f"GPU {device.number}: {format_size(device.free or 0)} free" for device in group)
            summary = "free memory differs by more than 10 % between the GPUs: SGLang calls that unbalanced and stops"
            yield make_error(NAME, summary, evidence, ("nvidia-smi   # then stop what runs on the fuller ones",))


def is_off(context: Context, name: str) -> bool:
    """Tell whether a variable turns SGLang's comparison off."""
    return context.environment.get(name, "").lower() in _OFF[name]

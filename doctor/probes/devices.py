"""Each GPU's health: memory errors, pending resets, exclusive mode, MIG, NVLink."""

from __future__ import annotations

from collections.abc import Iterator

from doctor.memory.units import format_size
from doctor.probes.base.context import Context
from doctor.probes.base.devices import Device, list_devices, list_used
from doctor.probes.base.result import Result, add_facts, make_error, make_ok, make_unknown, make_void, make_warning

NAME = "devices"
GROUP = "gpu"
SUMMARY = "the GPUs are healthy"
NEEDS = ("gpus",)
INSIDE = False

_MODES = {1: "EXCLUSIVE_THREAD", 2: "PROHIBITED", 3: "EXCLUSIVE_PROCESS"}
# Cards that bridges join: a link without a partner is idle on a healthy one.
_BRIDGED = frozenset({"pcie", "nvl", "rtx", "geforce", "quadro", "titan", "a30", "a40"})
_ACTIONS = {1: "a reset", 2: "a reboot", 3: "draining", 4: "draining and a reset"}


def probe(context: Context) -> Iterator[Result]:
    """Name every GPU and what is wrong with it."""
    devices = list_devices(context)
    answer = context.look("gpus")
    if not devices:
        hangs = "no answer" in answer.reason
        yield make_unknown(NAME, SUMMARY, answer.reason) if hangs else make_void(NAME, "no NVIDIA GPU to look at")
        return
    yield from add_facts(judge(context, devices), (fact for device in devices for fact in list_facts(device)))


def judge(context: Context, devices: list[Device]) -> Iterator[Result]:
    """Yield what is wrong with the GPUs, else their names."""
    problems = [problem for device in devices for problem in check_device(device)]
    yield from problems
    yield from list_lost(context)
    if context.look("gpus").reason:
        yield make_unknown(NAME, "some of the GPUs", context.look("gpus").reason)
    yield from compare_kinds(list_used(context)) if context.launch is not None else ()
    if not problems:
        yield make_ok(NAME, "; ".join(describe(device) for device in devices))


def describe(device: Device) -> str:
    """Describe a device in half a line."""
    level = f"sm{device.level}" if device.level is not None else "sm?"
    free = format_size(device.free) if device.free is not None else "?"
    total = format_size(device.total) if device.total is not None else "?"
    return f"GPU {device.number} {device.name} {level}, {free} of {total} free"


def list_facts(device: Device) -> Iterator[tuple[str, str]]:
    """List what --compare compares."""
    yield f"gpu.{device.number}.name", device.name
    yield f"gpu.{device.number}.level", str(device.level)
    yield f"gpu.{device.number}.memory", str(device.total)
    for name in ("persistence", "compute_mode", "mig", "links_up"):
        if device.raw.get(name) is not None:
            yield f"gpu.{device.number}.{name}", str(device.raw[name])


def check_device(device: Device) -> Iterator[Result]:
    """Yield what is wrong with one GPU."""
    raw, who = device.raw, f"GPU {device.number}"
    mode = raw.get("compute_mode")
    if mode in _MODES:
        severe = make_error if mode == 2 else make_warning
        fix = f"sudo nvidia-smi -i {device.number} -c DEFAULT"
        yield severe(NAME, f"{who} is in compute mode {_MODES[mode]}: a second process gets no context", (), (fix,))
    if raw.get("ecc_errors"):
        evidence = (f"{raw['ecc_errors']} uncorrected memory errors since the driver was loaded",)
        fixes = (f"sudo nvidia-smi -i {device.number} -r  (with nothing running on it)", "replace it if they come back")
        yield make_error(NAME, f"{who} had uncorrectable memory errors", evidence, fixes)
    if raw.get("recovery") in _ACTIONS:
        fix = f"sudo nvidia-smi -i {device.number} -r, or reboot"
        yield make_error(NAME, f"the driver asks for {_ACTIONS[raw['recovery']]} of {who}", (), (fix,))
    yield from check_rows(device, who)
    yield from check_partition(device, who)


def check_rows(device: Device, who: str) -> Iterator[Result]:
    """Yield remapped rows (corrected, uncorrected, pending, failed) that wait for a reset or failed."""
    remapped = device.raw.get("remapped")
    if isinstance(remapped, list) and len(remapped) == 4:
        if remapped[3]:
            yield make_error(NAME, f"{who} has no spare memory rows left", (), ("have the GPU replaced",))
        elif remapped[2]:
            yield make_warning(
                NAME,
                f"{who} has memory rows to remap at the next reset",
                (),
                (f"sudo nvidia-smi -i {device.number} -r",),
            )
    elif device.raw.get("retire_pending") == 1:
        yield make_warning(NAME, f"{who} has pages to retire at the next reset", (), ("reboot",))


def check_partition(device: Device, who: str) -> Iterator[Result]:
    """Yield MIG, NVLink and persistence notes that change how SGLang runs."""
    mig = device.raw.get("mig")
    if isinstance(mig, list) and mig[:1] == [1]:
        slices = ", ".join(device.raw.get("mig_devices") or ()) or "none"
        fixes = ("name one slice in CUDA_VISIBLE_DEVICES; tensor parallelism over slices does not work",)
        yield make_warning(NAME, f"{who} is divided by MIG; slices: {slices}", (), fixes)
    if device.raw.get("persistence") == 0:
        note = make_warning(NAME, f"persistence mode of {who} is off: every first start of CUDA takes seconds more")
        yield note._replace(severity="info", fixes=(f"sudo nvidia-smi -i {device.number} -pm 1",))
    links, up = device.raw.get("links") or 0, device.raw.get("links_up") or 0
    if links and 0 < up < links and not _BRIDGED & set(device.name.lower().replace("-", " ").split()):
        evidence = (f"{up} of {links} links are up",)
        yield make_warning(NAME, f"{who} has NVLink connections that are down", evidence, ("nvidia-smi nvlink -s",))


def list_lost(context: Context) -> Iterator[Result]:
    """Yield the GPUs that NVML counts and cannot open."""
    for row in context.look("gpus").data.get("devices", []):
        if row.get("error"):
            fixes = ("sudo dmesg | grep -i xid", "reboot; if it happens again, the card or its seat is bad")
            yield make_error(NAME, f"GPU {row.get('index')} cannot be opened", (str(row["error"]),), fixes)


def compare_kinds(used: list[Device]) -> Iterator[Result]:
    """Warn of different kinds of GPUs in one launch: every rank gets what the smallest can hold."""
    kinds = sorted({device.name for device in used})
    if len(kinds) > 1:
        evidence = tuple(describe(device) for device in used)
        fixes = ("choose GPUs of one kind with CUDA_VISIBLE_DEVICES",)
        yield make_warning(NAME, f"the launch would mix {' and '.join(kinds)}", evidence, fixes)

"""The GPUs' compute capability against what torch was compiled for and what SGLang needs."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from doctor.probes.base.context import Context
from doctor.probes.base.devices import Device, list_devices, list_used
from doctor.probes.base.result import Result, make_error, make_ok, make_unknown, make_void, make_warning
from doctor.probes.base.stack import find_rows, find_wheel_index, read_torch, write_install

NAME = "architectures"
GROUP = "gpu"
SUMMARY = "torch was built for these GPUs"
NEEDS = ("gpus", "python", "imports")
INSIDE = True

_LOWEST = 75
"""`SGLang only supports sm75 and above` (srt/model_executor/load_model_utils.py:91, 0.5.23)."""


def probe(context: Context) -> Iterator[Result]:
    """Compare every GPU that the launch takes."""
    devices = list_devices(context)
    if not devices or not context.uses_gpu:
        yield make_void(NAME, "no NVIDIA GPU to compare" if not devices else "the launch runs on the CPU")
        return
    version, cuda, hip = read_torch(context)
    if version is not None and not cuda and not hip and find_rows(context, "torch")[0].get("version_file"):
        index = find_wheel_index(context)
        plain = version.partition("+")[0]
        fixes = write_install(context, "--force-reinstall", f"torch=={plain}", index=index)
        yield make_error(NAME, f"torch {version} is a CPU build on a machine with GPUs", (), fixes)
        return
    used = list_used(context) or devices
    problems = list(check_levels(used))
    yield from problems
    if not problems:
        yield check_compiled(context, used)


def check_levels(used: Sequence[Device]) -> Iterator[Result]:
    """Yield GPUs that SGLang does not support, or supports without bfloat16."""
    for device in used:
        level = device.level
        if level is not None and level < _LOWEST:
            summary = f"{device.name} is sm{level}; SGLang needs sm{_LOWEST} or newer"
            yield make_error(NAME, summary, (), ("use another GPU; no setting helps",))
        elif level is not None and level < 80:
            summary = f"{device.name} is sm{level}: no bfloat16, and the kernel package starts at sm80"
            fixes = ("--dtype half --attention-backend triton --sampling-backend pytorch",)
            yield make_warning(NAME, summary, (), fixes)


def check_compiled(context: Context, used: Sequence[Device]) -> Result:
    """Compare with the architectures that torch itself reports."""
    modules = context.look("imports").data or {}
    torch = modules.get("torch", {})
    row = modules.get("architectures", {})
    built = row.get("architectures")
    if not built:
        reason = torch.get("error") or row.get("error") or context.look("imports").reason or "torch does not say"
        return make_unknown(NAME, SUMMARY, str(reason))
    evidence = (f"torch {torch.get('version')} was compiled for {' '.join(built)}",)
    missing = [device for device in used if device.level is not None and not runs_on(device.level, built)]
    if missing:
        summary = f"torch has no kernels for {missing[0].name} (sm{missing[0].level})"
        plain = str(torch.get("version", "")).partition("+")[0]
        index = find_wheel_index(context)
        fixes = write_install(context, "--force-reinstall", f"torch=={plain}", index=index)
        return make_error(NAME, summary, evidence, fixes)
    return make_ok(NAME, f"torch {torch.get('version')} has kernels for {used[0].name}", *evidence)


def runs_on(level: int, built: Sequence[str]) -> bool:
    """Tell whether code for one of `built` runs: the same major and no later minor, or PTX of an older one."""
    for name in built:
        match = re.fullmatch(r"(sm|compute)_(\d{2,3})[af]?", name)
        if match is None:
            continue
        number = int(match[2])
        same_major = number // 10 == level // 10 and number <= level
        if same_major or (match[1] == "compute" and number <= level):
            return True
    return False

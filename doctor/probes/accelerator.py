"""Which accelerator is in this machine, and whether this environment (container, WSL) can reach it."""

from __future__ import annotations

from collections.abc import Iterator

from doctor.probes.base.context import Context
from doctor.probes.base.files import exists
from doctor.probes.base.result import Result, make_error, make_ok, make_unknown, make_void, make_warning

NAME = "accelerator"
GROUP = "gpu"
SUMMARY = "an accelerator is there"
NEEDS = ("gpus",)
INSIDE = False

# PCI vendors, and the classes of display controllers (03) and processing accelerators (12).
_VENDORS = {"0x10de": "NVIDIA", "0x1002": "AMD", "0x19e5": "Ascend", "0x8086": "Intel"}
_CLASSES = ("0x0302", "0x0300", "0x0380", "0x1200")
_ROCM = "install SGLang's ROCm build: the image lmsysorg/sglang:*-rocm*"


def probe(context: Context) -> Iterator[Result]:
    """Name the accelerator; without a usable one say what is in the way."""
    data = context.look("gpus").data
    if data and data.get("count"):
        yield make_ok(NAME, f"{data['count']} NVIDIA GPU(s), asked by {data['source']}")
        return
    if not context.uses_gpu:
        yield make_void(NAME, "the launch runs on the CPU (--device cpu)")
        return
    vendors = find_vendors(context)
    hangs = "no answer" in context.look("gpus").reason
    if "NVIDIA" in vendors or has_nvidia_nodes(context) or hangs:
        yield explain_unreachable(context)
    elif "AMD" in vendors and exists(context.root, "/dev/kfd"):
        yield make_ok(NAME, "AMD GPU with ROCm (/dev/kfd); the checks of NVIDIA parts do not apply", _ROCM)
    elif "AMD" in vendors:
        yield make_warning(NAME, "an AMD GPU is there, but not /dev/kfd", fixes=("load the amdgpu driver", _ROCM))
    elif exists(context.root, "/dev/davinci0") or exists(context.root, "/dev/davinci_manager"):
        yield make_ok(NAME, "Ascend NPU (/dev/davinci0); the checks of NVIDIA parts do not apply")
    elif context.is_wsl and not exists(context.root, "/usr/lib/wsl/lib/libcuda.so.1"):
        fix = "install the NVIDIA driver on Windows (none inside WSL), then: wsl --shutdown"
        yield make_error(NAME, "WSL without the driver's library /usr/lib/wsl/lib/libcuda.so.1", fixes=(fix,))
    else:
        yield say_none(context)


def find_vendors(context: Context) -> set[str]:
    """Return the vendors of display and accelerator devices on the PCI bus."""
    found = set()
    for device in context.list("/sys/bus/pci/devices")[:512]:
        folder = f"/sys/bus/pci/devices/{device}"
        kind = (context.read(f"{folder}/class") or "").strip()
        vendor = _VENDORS.get((context.read(f"{folder}/vendor") or "").strip())
        if vendor and kind.startswith(_CLASSES):
            found.add(vendor)
    return found


def has_nvidia_nodes(context: Context) -> bool:
    """Tell whether a driver of NVIDIA is loaded or its device nodes are here."""
    return exists(context.root, "/dev/nvidiactl") or exists(context.root, "/proc/driver/nvidia/version")


def is_container(context: Context) -> bool:
    """Tell whether this is a container."""
    marks = ("/.dockerenv", "/run/.containerenv")
    return any(exists(context.root, mark) for mark in marks) or "container" in context.environment


def explain_unreachable(context: Context) -> Result:
    """Say why an NVIDIA GPU that is there does not answer."""
    reason = context.look("gpus").reason
    evidence = (reason,) if reason else ()
    if "mismatch" in reason.lower():
        return make_error(
            NAME, "the driver's library and kernel module have different versions", evidence, ("sudo reboot",)
        )
    if is_container(context) and not exists(context.root, "/dev/nvidiactl"):
        fixes = ("start the container with --gpus all (the host needs nvidia-container-toolkit)",)
        return make_error(
            NAME, "the host has an NVIDIA GPU, but this container was started without it", evidence, fixes
        )
    if "no answer" in reason:
        fix = "look for `NVRM: Xid` in `sudo dmesg`, then reboot: a wedged driver does not recover"
        return make_error(NAME, "the NVIDIA driver does not answer", evidence, (fix,))
    fix = "install the driver (580 or later for SGLang 0.5.12 and later), then look at nvidia-smi"
    return make_error(NAME, "an NVIDIA GPU is there, but its driver does not work", evidence, (fix,))


def say_none(context: Context) -> Result:
    """Say that nothing was found, as badly as it is for this launch."""
    evidence = tuple(filter(None, (context.look("gpus").reason,)))
    fix = "run SGLang on the CPU: add --device cpu (slow; meant for Xeon with AMX)"
    if context.launch is not None:
        return make_error(NAME, "no GPU found, and the launch needs one", evidence, (fix,))
    if not context.list("/sys/bus/pci/devices"):
        return make_unknown(NAME, SUMMARY, "/sys shows no PCI devices and no driver answers")
    return make_warning(NAME, "no GPU found: SGLang needs --device cpu here", evidence, (fix,))

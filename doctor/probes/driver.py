"""The NVIDIA driver against the CUDA version that the installed torch was built for."""

from __future__ import annotations

from collections.abc import Iterator

from doctor.probes.base.context import Context
from doctor.probes.base.devices import list_devices
from doctor.probes.base.result import Result, make_error, make_ok, make_unknown, make_void, make_warning
from doctor.probes.base.stack import read_torch, write_install

NAME = "driver"
GROUP = "gpu"
SUMMARY = "the driver fits torch's CUDA version"
NEEDS = ("gpus", "python", "imports")
INSIDE = False

# First driver branch of each CUDA major version's minor-version compatibility (CUDA Toolkit release notes, table
# of minimum drivers for compatibility), as CUDA major to branch.
_FIRST_DRIVER = {11: 450, 12: 525, 13: 580}
# Where CUDA's forward-compatibility package puts its libcuda (cuda-compat-*).
_COMPAT = "/usr/local/cuda/compat"


def probe(context: Context) -> Iterator[Result]:
    """Compare the driver with torch; the driver's own number comes from NVML or /proc."""
    version = find_driver(context)
    torch, cuda, _ = read_torch(context)
    if version is None:
        yield say_no_driver(context)
        return
    facts = (("driver.version", version),)
    if not context.uses_gpu:
        yield make_ok(NAME, f"driver {version}", facts=facts)
        return
    if torch is None or not cuda:
        if context.look("python").data is None:
            yield make_unknown(NAME, SUMMARY, context.look("python").reason)._replace(facts=facts)
            return
        what = "torch is not installed" if torch is None else f"torch {torch} was not built for CUDA"
        yield make_ok(NAME, f"driver {version}; {what}, so there is nothing to compare", facts=facts)
        return
    yield compare(context, version, cuda, torch)._replace(facts=facts)
    yield from check_802(context, version)


def find_driver(context: Context) -> str | None:
    """Return the driver's version: from NVML, else from the kernel module."""
    data = context.look("gpus").data
    if data and data.get("driver"):
        return str(data["driver"])
    words = (context.read("/proc/driver/nvidia/version") or "").split()
    return next((word for word in words if word.count(".") >= 1 and word[0].isdecimal()), None)


def say_no_driver(context: Context) -> Result:
    """Say why there is no driver to compare."""
    reason = context.look("gpus").reason
    if "no answer" in reason:
        return make_unknown(NAME, SUMMARY, reason)
    return make_void(NAME, "no NVIDIA driver here")


def compare(context: Context, version: str, cuda: str, torch: str) -> Result:
    """Judge by CUDA's minor-version compatibility: the branch must reach the first one of torch's CUDA major."""
    branch = read_number(version)
    major = read_number(cuda)
    needed = _FIRST_DRIVER.get(major or 0)
    if branch is None or needed is None:
        return make_unknown(NAME, SUMMARY, f"driver {version} or CUDA {cuda} is not known here")
    if branch >= needed:
        return make_ok(NAME, f"driver {version} runs torch {torch} (CUDA {cuda} needs {needed} or later)")
    evidence = (f"driver {version}; torch {torch} for CUDA {cuda}, which needs driver {needed} or later",)
    if has_started(context):
        return make_ok(NAME, f"driver {version} with a newer libcuda (forward compatibility): CUDA starts", *evidence)
    if _COMPAT in context.environment.get("LD_LIBRARY_PATH", ""):
        summary = "the driver is older than CUDA wants; a forward-compatibility libcuda is used"
        return make_warning(NAME, summary, evidence, ("doctor check --only imports   # does CUDA start with it?",))
    return make_error(NAME, f"the driver is too old for torch {torch}", evidence, suggest(context, needed, branch))


def has_started(context: Context) -> bool:
    """Tell whether CUDA started in the child that imported torch, which outweighs every table."""
    modules = context.look("imports").data or {}
    return bool(modules.get("cuda", {}).get("count"))


def suggest(context: Context, needed: int, branch: int) -> tuple[str, ...]:
    """Return how to get a driver, or an SGLang, that fits."""
    fixes = [f"install driver {needed} or later, for example: sudo apt-get install nvidia-driver-{needed}-open"]
    if not any("GeForce" in device.name for device in list_devices(context)):
        fixes.append("on data-centre GPUs, keep the driver and use the package cuda-compat-13-0 with LD_LIBRARY_PATH")
    if needed == 580 and branch >= 525:
        # the last release whose pinned torch 2.9.1 is the CUDA 12 build of PyPI (Requires-Dist of 0.5.10)
        fixes.extend(write_install(context, "sglang==0.5.10"))
    return tuple(fixes)


def check_802(context: Context, version: str) -> Iterator[Result]:
    """NVSwitch machines need a fabric manager of exactly the driver's version."""
    data = context.look("gpus").data or {}
    states = [device.get("fabric") for device in data.get("devices", []) if device.get("fabric")]
    if any(state[0] in (1, 2) for state in states) and not has_started(context):
        evidence = (f"fabric state of the GPUs: {[state[0] for state in states]} (3 means ready)",)
        fixes = (
            "sudo systemctl restart nvidia-fabricmanager",
            f"sudo apt-get install nvidia-fabricmanager-{read_number(version)}={version}-*",
        )
        yield make_error(NAME, "the NVSwitch fabric is not ready: CUDA will fail with error 802", evidence, fixes)


def read_number(text: str) -> int | None:
    """Return the first number of a version."""
    head = text.partition(".")[0]
    return int(head) if head.isdecimal() and len(head) < 8 else None

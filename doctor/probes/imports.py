"""Import torch and the compiled packages in a child of the launch's interpreter: a broken ABI shows here."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from doctor.launch.edits import Edit
from doctor.probes.base.context import Context
from doctor.probes.base.devices import list_devices, list_used, list_visible, wants_gpu
from doctor.probes.base.result import Result, make_error, make_ok, make_unknown, make_void, make_warning
from doctor.probes.base.stack import find_rows, find_version, read_requirements, write_install
from doctor.probes.base.versions import split_requirement

NAME = "imports"
GROUP = "python"
SUMMARY = "torch and the kernel package can be imported"
NEEDS = ("python", "gpus", "imports")
INSIDE = True

# Module to distributions, newest name first.
_DISTRIBUTIONS = {"sgl_kernel": ("sglang-kernel", "sgl-kernel")}
_FLASH = "sgl_kernel.flash_attn"
# SGLang cannot start without these (sgl_kernel: with CUDA only).
_NEEDED = ("torch", "sgl_kernel", "tokenizers")
# Nothing that was imported, or judged by other probes.
_ELSEWHERE = ("cuda", "architectures", "torchcodec", _FLASH)


def probe(context: Context) -> Iterator[Result]:
    """Judge each module's import."""
    answer = context.look("imports")
    modules = answer.data or {}
    if context.look("python").data is None:
        yield make_unknown(NAME, SUMMARY, context.look("python").reason)
        return
    if find_version(context, "torch") is None:
        yield make_void(NAME, "torch is not installed")
        return
    if not modules:
        yield make_unknown(NAME, SUMMARY, answer.reason)
        return
    good = [f"{name} {row.get('version', '')}".strip() for name, row in modules.items() if "error" not in row]
    bad = [(name, str(row["error"])) for name, row in modules.items() if "error" in row]
    installed = [pair for pair in bad if is_installed(context, pair[0])]
    for name, error in installed:
        yield describe_error(context, name, error)
    yield from check_flash(context, modules)
    yield from check_missing(context, modules)
    if answer.reason and "torch" in modules and not installed:
        yield make_unknown(NAME, "the rest of the imports", answer.reason)
    elif not installed and good:
        yield make_ok(NAME, f"imported: {', '.join(name for name in good if name not in _ELSEWHERE)}")


def is_installed(context: Context, module: str) -> bool:
    """Tell whether a module's distribution is there; `cuda` stands for the start of CUDA itself."""
    if module == "cuda":
        return context.uses_gpu and bool(list_visible(context))
    if module in (_FLASH, "architectures"):
        return False  # judged by check_flash and by a probe of its own
    names = _DISTRIBUTIONS.get(module, (module,))
    return any(find_rows(context, name) for name in names)


def describe_error(context: Context, module: str, error: str) -> Result:
    """Say what a failed import means; the cause is in the linker's own words."""
    if module == "cuda":
        return describe_cuda(error)
    severe = make_error if module in _NEEDED and (module != "sgl_kernel" or wants_gpu(context)) else make_warning
    summary, fixes = explain(context, module, error)
    return severe(NAME, summary, tuple(error.splitlines()[:6]), fixes)


def explain(context: Context, module: str, error: str) -> tuple[str, tuple[str, ...]]:
    """Return the meaning of an import error and what mends it."""
    pins = find_pins(context, module)
    if "_ZN3c10" in error or "_ZN5torch" in error or "c10::" in error or "undefined symbol: _ZN2at" in error:
        return f"{module} was built for another torch", write_install(context, "--force-reinstall", *pins)
    if re.search(r"undefined symbol: cu[A-Z]", error):  # cuda..., cublas... are of the toolkit's libraries
        return f"{module} needs a newer NVIDIA driver", ("sudo apt-get install nvidia-driver-580-open", "nvidia-smi")
    if "undefined symbol" in error:
        return f"{module} was built for other libraries", write_install(context, "--force-reinstall", *pins)
    if "libnuma.so" in error:
        return f"{module} needs libnuma", ("sudo apt-get install -y libnuma1", "sudo dnf install -y numactl-libs")
    if "libcuda.so" in error:
        return f"{module} finds no libcuda: the driver is not visible here", (
            "nvidia-smi   # is there a driver at all?",
            "start the container with --gpus all",
        )
    if "cannot open shared object file" in error:
        library = error.partition("cannot open")[0].strip(" :").rsplit(" ", 1)[-1]
        return f"{module} misses {library}", write_install(context, "--force-reinstall", *pins)
    if "killed by" in error or "SIGSEGV" in error or "SIGABRT" in error:
        return f"importing {module} crashes", write_install(context, "--force-reinstall", *pins)
    return f"{module} cannot be imported", write_install(context, "--force-reinstall", *pins)


def find_pins(context: Context, module: str) -> tuple[str, ...]:
    """Return the pinned pair of torch and the module, as sglang's metadata has it."""
    names = {"torch", *_DISTRIBUTIONS.get(module, (module,))}
    rows = [split_requirement(line) for line in read_requirements(context)]
    found = tuple(f"{name}{specifier}" for name, _, specifier, marker in rows if name in names and not marker)
    return found or (_DISTRIBUTIONS.get(module, (module,))[0],)


def describe_cuda(error: str) -> Result:
    """Say why CUDA does not start although NVML answers."""
    known = (
        ("802", "the NVSwitch fabric is not up (error 802)", "sudo systemctl restart nvidia-fabricmanager"),
        ("803", "a libcuda of the container shadows the host's (error 803)", "unset LD_LIBRARY_PATH"),
        ("too old", "the driver is too old for this torch", "install driver 580 or later"),
        ("No CUDA GPUs", "CUDA sees no GPU in this environment", "unset CUDA_VISIBLE_DEVICES"),
    )  # fmt: skip
    for mark, summary, fix in known:
        if mark in error:
            return make_error(NAME, summary, (error[:300],), (fix,))
    return make_error(NAME, "CUDA does not start", (error[:300],), ("nvidia-smi", "sudo dmesg | grep -i nvrm"))


def check_flash(context: Context, modules: dict[str, Any]) -> Iterator[Result]:
    """Yield a kernel package without FlashAttention 3 where that is the attention backend."""
    error = modules.get(_FLASH, {}).get("error")
    if not error or "error" in modules.get("sgl_kernel", {"error": ""}):
        return
    backend = context.value("attention_backend")
    hopper = any(device.level == 90 for device in list_used(context))
    if backend == "fa3" or (backend is None and hopper and context.launch is not None):
        pins = find_pins(context, "sgl_kernel")
        fixes = ("--attention-backend triton", *write_install(context, "--force-reinstall", *pins))
        summary = (
            f"the FlashAttention 3 library is missing, and fa3 is {'asked for' if backend else 'the default on Hopper'}"
        )
        edits = (Edit("flag", "--attention-backend", backend, "triton"),)
        yield make_error(NAME, summary, (str(error)[:300],), fixes, edits)


def check_missing(context: Context, modules: dict[str, Any]) -> Iterator[Result]:
    """Yield a launch on a GPU without any kernel package."""
    is_cuda = bool(list_devices(context)) or context.value("device") == "cuda"
    if context.launch is None or not context.uses_gpu or not is_cuda or is_installed(context, "sgl_kernel"):
        return
    error = modules.get("sgl_kernel", {}).get("error")
    if error:
        fixes = write_install(context, *find_pins(context, "sgl_kernel"))
        yield make_error(NAME, "the kernel package sgl_kernel is not installed", (str(error)[:300],), fixes)

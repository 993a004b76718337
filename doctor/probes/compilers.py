"""What SGLang needs to compile kernels at the first start: nvcc, ninja, a C++ compiler, headers, libcuda."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator

from doctor.probes.base.children import run_child
from doctor.probes.base.context import Context
from doctor.probes.base.devices import list_devices, list_used
from doctor.probes.base.edits import set_variable
from doctor.probes.base.files import exists, place
from doctor.probes.base.interpreter import which
from doctor.probes.base.result import Result, make_error, make_ok, make_unknown, make_void, make_warning
from doctor.probes.base.stack import find_version, read_interpreter, read_torch

NAME = "compilers"
GROUP = "tools"
SUMMARY = "kernels can be compiled at the first start"
NEEDS = ("gpus", "python")
INSIDE = True

_RELEASE = re.compile(r"release (\d+)\.(\d+)")
# First CUDA that compiles for a capability or a later one (CUDA release notes): 11.8 for Hopper and Ada, 12.8 for the
# first Blackwells, 12.9 for sm103 and sm121, 13.0 for sm110, which had another number before.
_FIRST_NVCC = ((121, (12, 9)), (120, (12, 8)), (110, (13, 0)), (103, (12, 9)), (100, (12, 8)), (89, (11, 8)))
_LIBCUDA = (
    *("/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64", "/usr/lib"),
    *("/usr/lib/wsl/lib", "/usr/local/cuda/compat", "/usr/local/nvidia/lib64"),
)


def probe(context: Context) -> Iterator[Result]:
    """Look for each tool; without a GPU nothing is compiled."""
    if not context.uses_gpu or (not list_devices(context) and not context.look("gpus").reason):
        yield make_void(NAME, "nothing is compiled without a GPU")
        return
    if not list_devices(context):
        yield make_void(NAME, "no NVIDIA GPU to compile for")
        return
    problems = [*check_nvcc(context), *check_compiler(context), *check_ninja(context), *check_libcuda(context)]
    yield from problems
    if not problems:
        yield make_ok(NAME, f"nvcc ({find_nvcc(context)}), ninja, C++ compiler and libcuda are there")


def find_nvcc(context: Context) -> str | None:
    """Return nvcc as SGLang 0.5.23 looks for it: CUDA_HOME, else CUDA_PATH, else PATH, else /usr/local/cuda.

    One that is set is the only place (kernels/jit/utils/compile/toolchain.py; torch's cpp_extension does the same).
    """
    home = context.environment.get("CUDA_HOME") or context.environment.get("CUDA_PATH")
    if home:
        return which(os.path.join(home, "bin", "nvcc"), context.environment)
    usual = place(context.root, "/usr/local/cuda/bin/nvcc")
    return which("nvcc", context.environment) or which(usual, context.environment)


def check_nvcc(context: Context) -> Iterator[Result]:
    """Yield a missing nvcc, or one that is too old for the GPU or of another CUDA major than torch."""
    path = find_nvcc(context)
    fixes = ("sudo apt-get install -y cuda-toolkit-13-0", "use an image with -devel in its tag, or lmsysorg/sglang")
    if path is None:
        yield say_missing(context, fixes)
        return
    done = run_child([path, "--version"], 5, context.environment, context.clock)
    match = _RELEASE.search(done.out)
    if match is None:
        yield make_warning(NAME, f"{path} does not work", (done.trouble or "it does not tell its version",), fixes)
        return
    version = int(match[1]), int(match[2])
    yield from compare_nvcc(context, path, version, fixes)


def say_missing(context: Context, fixes: tuple[str, ...]) -> Result:
    """Say that there is no nvcc, or none where the environment sends SGLang."""
    name = next((name for name in ("CUDA_HOME", "CUDA_PATH") if context.environment.get(name)), None)
    if name is not None:
        edits = (set_variable(context, name, None),)
        summary = f"{name}={context.environment[name]} holds no bin/nvcc, and SGLang looks nowhere else"
        return make_warning(NAME, summary, (), (f"unset {name}", *fixes), edits)
    packed = find_version(context, "flashinfer-jit-cache", "flashinfer-cubin")
    note = (
        f"flashinfer's compiled kernels are there ({packed}), others are not"
        if packed
        else "FlashInfer and DeepGEMM compile theirs, too"
    )
    return make_warning(NAME, "nvcc is missing: kernels that are not in a wheel cannot be built", (note,), fixes)


def compare_nvcc(context: Context, path: str, version: tuple[int, int], fixes: tuple[str, ...]) -> Iterator[Result]:
    """Yield the two ways in which an nvcc does not fit."""
    name = f"{path} is CUDA {version[0]}.{version[1]}"
    levels = [device.level for device in list_used(context) if device.level is not None]
    needed = next((first for level, first in _FIRST_NVCC if levels and max(levels) >= level), (0, 0))
    if version < needed:
        summary = f"{name}; sm{max(levels)} needs {needed[0]}.{needed[1]} or later to compile for"
        yield make_error(NAME, summary, (), fixes)
    cuda = (read_torch(context)[1] or "").partition(".")[0]
    if cuda.isdecimal() and int(cuda) != version[0]:
        summary = f"{name}, torch was built for CUDA {cuda}: extensions will not load"
        yield make_warning(
            NAME,
            summary,
            (f"CUDA_HOME={context.environment.get('CUDA_HOME', '(not set)')}",),
            (f"export CUDA_HOME=/usr/local/cuda-{cuda}", *fixes),
        )


def check_compiler(context: Context) -> Iterator[Result]:
    """Yield a missing C++ or C compiler and missing headers of Python; Triton needs the latter two."""
    wanted = context.environment.get("CXX") or "g++"
    if which(wanted.split()[0], context.environment) is None and which("clang++", context.environment) is None:
        yield make_warning(
            NAME, f"no C++ compiler ({wanted})", (), ("sudo apt-get install -y g++", "sudo dnf install -y gcc-c++")
        )
    names = ("gcc", "cc", "clang", *context.environment.get("CC", "").split()[:1])  # Triton asks CC first
    if not any(which(name, context.environment) for name in names):
        yield make_error(NAME, "no C compiler: Triton cannot build its launcher", (), ("sudo apt-get install -y gcc",))
    found = read_interpreter(context)
    if found and not found.get("headers"):
        version = ".".join(str(found["version"]).split(".")[:2])
        fixes = (f"sudo apt-get install -y python{version}-dev", f"sudo dnf install -y python{version}-devel")
        yield make_error(NAME, f"Python.h of Python {version} is missing: Triton cannot build its launcher", (), fixes)


def check_ninja(context: Context) -> Iterator[Result]:
    """Yield a missing ninja, which the interpreter's own folder may hold."""
    beside = os.path.join(os.path.dirname(context.python.path or ""), "ninja")
    if which("ninja", context.environment) is None and not os.access(beside, os.X_OK):
        python = context.python.path or "python3"
        fixes = (f"{python} -m pip install ninja", "sudo apt-get install -y ninja-build")
        yield make_warning(NAME, "ninja is missing: kernels that are not in a wheel cannot be built", (), fixes)


def check_libcuda(context: Context) -> Iterator[Result]:
    """Yield a libcuda that the linker does not find; the stubs of the toolkit are good enough for it."""
    cache = context.read("/etc/ld.so.cache") or ""
    paths = [*_LIBCUDA, *context.environment.get("LD_LIBRARY_PATH", "").split(":")]
    if "libcuda.so" in cache or any(
        exists(context.root, f"{path}/libcuda.so.1") for path in paths if path.startswith("/")
    ):
        return
    if exists(context.root, "/usr/local/cuda/lib64/stubs/libcuda.so"):
        return
    yield make_unknown(
        NAME, "libcuda for linking", "it is in none of the usual folders", ("ldconfig -p | grep libcuda",)
    )

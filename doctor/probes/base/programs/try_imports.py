"""Child program: import torch, then each compiled package in a fork of its own, so that no crash hides another."""

from __future__ import annotations

import ctypes
import glob
import importlib
import importlib.util
import json
import os
from collections.abc import Callable
from typing import Any

_OUT = os.dup(1)
# What SGLang cannot start without. FlashAttention 3 is a library of its own in the kernel package, which its Python
# module insists on.
_MODULES = ("sgl_kernel", "sgl_kernel.flash_attn", "tokenizers")
# Of these only the libraries that are compiled against torch are loaded: importing all of torchvision takes half as
# long as importing torch.
_LIBRARIES = {"torchvision": ("_C*.so",), "torchaudio": ("lib/*torchaudio.so", "lib/_torchaudio*.so")}


def main() -> None:
    """Print torch, then what depends on it."""
    os.dup2(2, 1)  # what packages print while they are imported is not an answer
    if not attempt("torch", describe_torch):
        return
    forks = {name: fork(name, make_import(name)) for name in _MODULES}
    forks.update({name: fork(name, make_loader(name)) for name in _LIBRARIES})
    forks["torchcodec"] = fork("torchcodec", load_codecs)
    forks["architectures"] = fork("architectures", list_architectures)
    forks["cuda"] = fork("cuda", start_cuda)
    for name, pid in forks.items():
        _, status = os.waitpid(pid, 0)
        if os.WIFSIGNALED(status):
            say(attempt=name, error=f"killed by signal {os.WTERMSIG(status)}")
        elif os.WEXITSTATUS(status):
            say(attempt=name, error=f"ended the process with code {os.WEXITSTATUS(status)}")


def say(**found: Any) -> None:
    """Print one object in one write, so that forks cannot mix their lines."""
    os.write(_OUT, (json.dumps(found) + "\n").encode())


def attempt(name: str, action: Callable[[], dict[str, Any]]) -> bool:
    """Do something and print how it went."""
    try:
        say(attempt=name, **action())
    except BaseException as error:  # noqa: BLE001 - SystemExit and KeyboardInterrupt are findings here
        say(attempt=name, error=f"{type(error).__name__}: {error}"[:1500])
        return False
    return True


def fork(name: str, action: Callable[[], dict[str, Any]]) -> int:
    """Do something in a fork and return its pid."""
    pid = os.fork()
    if pid == 0:
        attempt(name, action)
        os._exit(0)
    return pid


def make_import(name: str) -> Callable[[], dict[str, Any]]:
    """Return the action that imports a module."""

    def load() -> dict[str, Any]:
        module = importlib.import_module(name)
        return {"version": str(getattr(module, "__version__", ""))}

    return load


def make_loader(name: str) -> Callable[[], dict[str, Any]]:
    """Return the action that loads a package's libraries without importing the package."""

    def load() -> dict[str, Any]:
        spec = importlib.util.find_spec(name)
        if spec is None:
            raise ModuleNotFoundError(f"No module named {name!r}")
        folders = list(spec.submodule_search_locations or ())
        paths = [path for folder in folders for pattern in _LIBRARIES[name] for path in find(folder, pattern)]
        for path in dict.fromkeys(paths):
            ctypes.CDLL(path)
        return {"libraries": len(paths)}

    return load


def load_codecs() -> dict[str, Any]:
    """Load torchcodec's cores, newest FFmpeg first, up to one that loads: importing it does not, from 0.17 on."""
    spec = importlib.util.find_spec("torchcodec")
    if spec is None:
        raise ModuleNotFoundError("No module named 'torchcodec'")
    folder = next(iter(spec.submodule_search_locations or ()), "")
    cores = {}
    for number in range(12, 3, -1):
        for path in find(folder, f"libtorchcodec_core{number}.so"):
            try:
                ctypes.CDLL(path)
            except OSError as error:
                cores[number] = str(error)[:300]
                continue
            return {"cores": {**cores, number: ""}}
    return {"cores": cores}


def find(folder: str, pattern: str) -> list[str]:
    """List the files of a package that a pattern names."""
    return sorted(glob.glob(os.path.join(glob.escape(folder), pattern)))


def describe_torch() -> dict[str, Any]:
    """Import torch and say what it was built for."""
    torch = importlib.import_module("torch")
    return {
        "version": torch.__version__,
        "cuda": torch.version.cuda,
        "hip": getattr(torch.version, "hip", None),
    }


def list_architectures() -> dict[str, Any]:
    """List what torch was compiled for; asking that makes CUDA unusable in later forks, so it has one of its own."""
    torch = importlib.import_module("torch")
    flags = getattr(torch._C, "_cuda_getArchFlags", lambda: "")() or ""  # noqa: SLF001 - no public way without a GPU
    return {"architectures": flags.split()}


def start_cuda() -> dict[str, Any]:
    """Start CUDA, which needs a driver that fits, and count the devices that this environment shows."""
    torch = importlib.import_module("torch")
    if torch.version.cuda is None and getattr(torch.version, "hip", None) is None:
        return {"count": 0, "built": False}
    torch.cuda.init()
    return {"count": torch.cuda.device_count(), "built": True}


if __name__ == "__main__":
    main()
    os._exit(0)  # tidying up after torch takes a second, and may crash

"""Child program: list the distributions that an interpreter finds, without importing any of them."""

from __future__ import annotations

import importlib.util
import json
import os
import platform
import re
import sys
import sysconfig
from typing import Any

# Files of these are read for their requirements, platform tags and origin; of all others the name is enough.
_KEY = {"sglang", "sglang-kernel", "sgl-kernel", "torch", "torchcodec", "flashinfer-python"}
_LIMIT = 1 << 20


def main() -> None:
    """Print the interpreter, then each distribution."""
    print(json.dumps(describe_interpreter()), flush=True)
    for folder in dict.fromkeys(sys.path):
        for row in list_folder(folder or os.getcwd()):
            print(json.dumps(row), flush=True)


def describe_interpreter() -> dict[str, Any]:
    """Describe the interpreter and where it would import SGLang from."""
    return {
        "version": platform.python_version(),
        "executable": sys.executable,
        "prefix": sys.prefix,
        "base_prefix": sys.base_prefix,
        "machine": platform.machine(),
        "libc": list(platform.libc_ver()),
        "headers": os.path.isfile(os.path.join(sysconfig.get_paths()["include"], "Python.h")),
        "path": sys.path[:50],
        "user_site": next(
            (path for path in sys.path if "/.local/lib/python" in path and path.endswith("-packages")), ""
        ),
        "shadows": list_shadows(),
        "sglang_at": find_module("sglang"),
    }


def find_module(name: str) -> str:
    """Return the file or folder that a top-level module would come from, empty when there is none."""
    try:
        spec = importlib.util.find_spec(name)
    except (ImportError, ValueError):
        return ""
    return "" if spec is None else spec.origin or next(iter(spec.submodule_search_locations or ()), "")


def list_shadows() -> list[str]:
    """List files of the working folder that hide a module of the standard library or of the stack."""
    names = {"torch", "numpy", "transformers", "triton", "sgl_kernel", "flashinfer", "tokenizers", "xgrammar"}
    names |= set(getattr(sys, "stdlib_module_names", ()))
    try:
        entries = os.listdir(os.getcwd()) if "" in sys.path else []
    except OSError:
        entries = []
    return sorted(entry for entry in entries if entry.endswith(".py") and entry[:-3] in names)


def list_folder(folder: str) -> list[dict[str, Any]]:
    """List the distributions whose metadata lies in a folder."""
    try:
        entries = os.listdir(folder)
    except OSError:
        return []
    rows = []
    for entry in sorted(entries):
        match = re.fullmatch(r"([A-Za-z0-9._]+)-([^-]+)(?:-py[\d.]+)?\.(?:dist-info|egg-info)", entry)
        if match:
            name = re.sub(r"[-_.]+", "-", match[1]).lower()
            row: dict[str, Any] = {"name": name, "version": match[2], "folder": folder}
            if name in _KEY:
                row.update(read_details(os.path.join(folder, entry)))
            rows.append(row)
        elif entry.startswith("__editable__") and entry.endswith(".pth"):
            rows.append({"editable": entry, "folder": folder})
    return rows


def read_details(folder: str) -> dict[str, Any]:
    """Read what the metadata of an important distribution says."""
    metadata = read(os.path.join(folder, "METADATA")).split("\n\n", 1)[0].splitlines()
    heads = [line.partition(": ") for line in metadata]
    url = read(os.path.join(folder, "direct_url.json"))
    return {
        "requires": [value for head, _, value in heads if head == "Requires-Dist"],
        "requires_python": next((value for head, _, value in heads if head == "Requires-Python"), ""),
        "tags": [line[5:] for line in read(os.path.join(folder, "WHEEL")).splitlines() if line.startswith("Tag: ")],
        "is_editable": '"editable": true' in url,
        "version_file": read_version(os.path.dirname(folder)) if "torch-" in folder else {},
    }


def read_version(folder: str) -> dict[str, str]:
    """Read torch/version.py, which knows the CUDA or ROCm version that the wheel was built for."""
    text = read(os.path.join(folder, "torch", "version.py"))
    found = re.findall(r"^(__version__|cuda|hip)\b[^=\n]*= *'([^'\n]*)'", text, re.MULTILINE)
    return {name.strip("_"): value for name, value in found}


def read(path: str) -> str:
    """Return a file's text, empty when it cannot be read."""
    try:
        with open(path, encoding="utf-8", errors="replace") as stream:
            return stream.read(_LIMIT)
    except OSError:
        return ""


if __name__ == "__main__":
    main()

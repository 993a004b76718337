"""The Python packages of the launch's interpreter, as the python observer found them."""

from __future__ import annotations

import shlex
from typing import Any

from doctor.probes.base.context import Context
from doctor.probes.base.interpreter import which


def find_rows(context: Context, name: str) -> list[dict[str, Any]]:
    """Return every copy of a distribution, the one that is imported first."""
    data = context.look("python").data
    return list(data["packages"].get(name, [])) if isinstance(data, dict) else []


def find_version(context: Context, *names: str) -> str | None:
    """Return the version of the first of these distributions that is installed."""
    return next((str(rows[0]["version"]) for name in names if (rows := find_rows(context, name))), None)


def read_interpreter(context: Context) -> dict[str, Any]:
    """Return what the interpreter said of itself, empty when it did not answer."""
    data = context.look("python").data
    return dict(data["interpreter"]) if isinstance(data, dict) else {}


def read_torch(context: Context) -> tuple[str | None, str | None, str | None]:
    """Return torch's version, its CUDA and its ROCm version, from torch/version.py of the installed wheel."""
    rows = find_rows(context, "torch")
    if not rows:
        return None, None, None
    said = rows[0].get("version_file") or {}
    version = said.get("version") or str(rows[0]["version"])
    return version, said.get("cuda"), said.get("hip")


def read_requirements(context: Context) -> list[str]:
    """Return the Requires-Dist lines of the installed sglang."""
    rows = find_rows(context, "sglang")
    return [str(line) for line in rows[0].get("requires", [])] if rows else []


def write_install(context: Context, *requirements: str, index: str = "") -> tuple[str, ...]:
    """Return the commands that install requirements into the launch's interpreter, for pip and for uv."""
    python = shlex.quote(context.python.path or "python3")
    words = " ".join(shlex.quote(requirement) for requirement in requirements)
    extra = f" --extra-index-url {index}" if index else ""
    pip = f"{python} -m pip install {words}{extra}"
    uv = f"uv pip install --python {python} {words}{extra}"
    return (uv, pip) if which("uv", context.environment) else (pip, uv)


def write_removal(context: Context, *names: str) -> str:
    """Return the command that removes distributions."""
    return f"{shlex.quote(context.python.path or 'python3')} -m pip uninstall -y {' '.join(names)}"


def find_wheel_index(context: Context) -> str:
    """Return PyTorch's index of wheels for the CUDA version of the driver's major, empty when nothing is known.

    cu126, cu128 and cu130 are the indexes that torch 2.9 to 2.14 were published on (download.pytorch.org/whl).
    """
    data = context.look("gpus").data
    cuda = data.get("cuda") if isinstance(data, dict) else None
    if not isinstance(cuda, int):
        return ""
    name = "cu130" if cuda >= 13000 else "cu128" if cuda >= 12080 else "cu126" if cuda >= 12000 else ""
    return f"https://download.pytorch.org/whl/{name}" if name else ""

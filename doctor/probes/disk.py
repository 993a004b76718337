"""Space, inodes and rights where the server writes: temporary files and caches."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from typing import Any

from doctor.memory.units import GIB, MIB, format_size
from doctor.probes.base.context import Context
from doctor.probes.base.launch import find_hub_cache, is_remote
from doctor.probes.base.result import SEVERITIES, Result, make_error, make_ok, make_unknown, make_void, make_warning

NAME = "disk"
GROUP = "host"
SUMMARY = "there is disk space for temporary files and caches"
NEEDS = ("paths",)
INSIDE = True

# Kernels that FlashInfer, Triton and SGLang compile at the first start take 1 to 3 GiB together (H200 recordings).
_CACHE, _TINY = 3 * GIB, 256 * MIB
_INODES = 10_000
# The end of a folder's name, and the variable that moves it.
_VARIABLES = (
    ("flashinfer", "FLASHINFER_WORKSPACE_BASE"),
    ("sglang", "SGLANG_CACHE_DIR"),
    ("triton", "TRITON_CACHE_DIR"),
    ("hub", "HF_HOME"),
)


def probe(context: Context) -> Iterator[Result]:
    """Judge every folder once, by the file system it lies on."""
    answer = context.look("paths")
    found = {path: row for path, row in (answer.data or {}).items() if path != "/dev/shm" and is_ours(path, context)}  # noqa: S108
    if answer.reason:
        fixes = ("a dead mount: look at `mount` and at the kernel's log",) if "no answer" in answer.reason else ()
        yield make_unknown(NAME, SUMMARY, answer.reason, fixes)
    if not found:
        yield from () if answer.reason else (make_void(NAME, "no folder to look at"),)
        return
    hub = find_hub_cache(context.environment)
    problems = [
        problem if path != hub or needs_download(context) else problem._replace(severity="info")
        for path, row in found.items()
        for problem in check_path(path, row)
    ]
    yield from merge(problems)
    if not problems and not answer.reason:
        least = min(found.values(), key=lambda row: row.get("free", 0))
        folders = f"{least['folder']} has {format_size(least['free'])} free"
        yield make_ok(NAME, f"{len(found)} folders are writable; {folders}")
    yield from check_download(context, found)


def is_ours(path: str, context: Context) -> bool:
    """Tell a folder that the server writes to from the model's own, which it only reads."""
    name = context.value("model_path")
    return path != name and not path.startswith(f"{find_hub_cache(context.environment)}/models--")


def check_path(path: str, row: dict[str, Any]) -> Iterator[Result]:
    """Yield what is wrong with one folder."""
    folder = row.get("folder", path)
    if "error" in row:
        yield make_warning(NAME, f"{path}: {row['error']}", (), (f"ls -ld {shlex.quote(path)}",))
        return
    move = suggest(path)
    if not row["writable"]:
        yield make_error(NAME, f"{folder} is not writable for this user (needed for {path})", (), (move,))
    elif row["free"] < _TINY:
        yield make_error(
            NAME,
            f"{folder} is full: {format_size(row['free'])} free",
            (),
            (f"du -xsh {shlex.quote(folder)}/* | sort -h | tail", move),
        )
    elif row["free"] < _CACHE:
        summary = f"{folder} has {format_size(row['free'])} free; compiled kernels may take {format_size(_CACHE)}"
        yield make_warning(NAME, summary, (), (move,))
    elif row.get("has_inodes") and row["inodes"] < _INODES:
        yield make_error(
            NAME, f"{folder} has only {row['inodes']} inodes left", (), (f"df -i {shlex.quote(folder)}", move)
        )


def suggest(path: str) -> str:
    """Return the variable that moves a folder elsewhere."""
    name = next((variable for word, variable in _VARIABLES if path.rstrip("/").endswith(word)), "TMPDIR")
    return f"set {name} to a folder with space that this user may write"


def merge(problems: list[Result]) -> Iterator[Result]:
    """Yield problems of one folder once, the worst of them with the fixes of all."""
    merged: dict[str, Result] = {}
    for problem in sorted(problems, key=lambda one: SEVERITIES.index(one.severity)):
        key = problem.summary.partition(" (needed")[0]
        other = merged.get(key)
        fixes = problem.fixes if other is None else tuple(dict.fromkeys([*other.fixes, *problem.fixes]))
        merged[key] = (other or problem)._replace(fixes=fixes)
    yield from merged.values()


def check_download(context: Context, found: dict[str, Any]) -> Iterator[Result]:
    """Say that the model has to be downloaded."""
    if not needs_download(context):
        return
    name = str(context.value("model_path"))
    row = found.get(find_hub_cache(context.environment), {})
    free = format_size(row["free"]) if "free" in row else "unknown"
    fix = f"hf download {shlex.quote(name)}"
    if context.environment.get("HF_HUB_OFFLINE", "").lower() in ("1", "true", "yes", "on"):
        summary = f"{name} is not in the cache, and HF_HUB_OFFLINE forbids the download"
        yield make_error(NAME, summary, (), (f"HF_HUB_OFFLINE=0 {fix}   # with the network",))
    else:
        summary = f"{name} is not in the cache and will be downloaded; {free} free there"
        yield make_warning(NAME, summary, (), (fix,))._replace(severity="info")


def needs_download(context: Context) -> bool:
    """Tell whether the launch names a repository of the Hugging Face hub that is not in the cache."""
    name = context.value("model_path")
    if context.model is not None or not isinstance(name, str) or is_remote(name):
        return False
    is_elsewhere = context.environment.get("SGLANG_USE_MODELSCOPE", "").lower() in ("1", "true", "yes")
    return name.count("/") == 1 and not name.startswith(("/", ".", "~")) and not is_elsewhere

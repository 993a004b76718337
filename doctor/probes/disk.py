"""Space, inodes and rights where the server writes: temporary files and caches."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from typing import Any

from doctor.memory.units import GIB, MIB, format_size
from doctor.probes.base.context import Context
from doctor.probes.base.launch import is_remote, list_caches
from doctor.probes.base.result import SEVERITIES, Result, make_error, make_ok, make_unknown, make_void, make_warning

NAME = "disk"
GROUP = "host"
SUMMARY = "there is disk space for temporary files and caches"
NEEDS = ("paths",)
INSIDE = True

# Kernels that FlashInfer, Triton and SGLang compile at the first start take 1 to 3 GiB together (H200 recordings);
# while they are compiled, temporary files take a part of that.
_CACHE, _TEMPORARY, _TINY = 3 * GIB, GIB, 256 * MIB
_INODES = 10_000


def probe(context: Context) -> Iterator[Result]:
    """Judge every folder once, by the file system it lies on."""
    answer = context.look("paths")
    rows = answer.data or {}
    found = {name: rows[path] for name, path in list_caches(context.environment).items() if path in rows}
    if answer.reason:
        fixes = ("a dead mount: look at `mount` and at the kernel's log",) if "no answer" in answer.reason else ()
        yield make_unknown(NAME, SUMMARY, answer.reason, fixes)
    if not found:
        yield from () if answer.reason else (make_void(NAME, "no folder to look at"),)
        return
    problems = [
        problem if name != "HF_HOME" or needs_download(context) else problem._replace(severity="info")
        for name, row in found.items()
        for problem in check_folder(context, name, row)
    ]
    yield from merge(problems)
    if not problems and not answer.reason:
        least = min(found.values(), key=lambda row: row.get("free", 0))
        folders = f"{least['folder']} has {format_size(least['free'])} free"
        yield make_ok(NAME, f"{len(found)} folders are writable; {folders}")
    yield from check_download(context, found)


def check_folder(context: Context, name: str, row: dict[str, Any]) -> Iterator[Result]:
    """Yield what is wrong with the folder that a variable moves."""
    path = list_caches(context.environment)[name]
    folder = row.get("folder", path)
    if "error" in row:
        yield make_warning(NAME, f"{path}: {row['error']}", (), (f"ls -ld {shlex.quote(path)}",))
        return
    move = f"set {name} to a folder with space that this user may write"
    needed = _TEMPORARY if name == "TMPDIR" else _CACHE
    if not row["writable"]:
        yield make_error(NAME, f"{folder} is not writable for this user (needed for {path})", (), (move,))
    elif row["free"] < _TINY:
        fixes = (f"du -xsh {shlex.quote(folder)}/* | sort -h | tail", move)
        yield make_error(NAME, f"{folder} is full: {format_size(row['free'])} free", (), fixes)
    elif row["free"] < needed:
        summary = f"{folder} has {format_size(row['free'])} free; compiled kernels may take {format_size(needed)}"
        yield make_warning(NAME, summary, (), (move,))
    elif row.get("has_inodes") and row["inodes"] < _INODES:
        fixes = (f"df -i {shlex.quote(folder)}", move)
        yield make_error(NAME, f"{folder} has only {row['inodes']} inodes left", (), fixes)


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
    row = found.get("HF_HOME", {})
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

"""Bring back what only a child may look at; each observer answers with data or with the reason why there is none."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from doctor.probes.base.children import Clock, Done, run_child
from doctor.probes.base.context import Answer, Context
from doctor.probes.base.interpreter import which
from doctor.probes.base.launch import list_caches, list_model_places

_PROGRAMS = os.path.join(os.path.dirname(__file__), "programs")
_SMI_FIELDS = "index,name,uuid,memory.total,memory.free,driver_version,compute_cap"
# Programs that need the standard library only: without site the interpreter starts in a third of the time.
_LEAN = frozenset({"look_at_paths", "resolve_name"})
# Seconds for each child. NVML answers within one second on a healthy machine of eight GPUs; importing torch took
# three to five on a warm disk and 20 on a cold one (H200 recordings); everything else is a matter of milliseconds.
_SHORT, _NVML, _IMPORTS = 5.0, 7.0, 17.0


def observe_gpus(context: Context) -> Answer:
    """Ask NVML; when that fails, nvidia-smi, which says less."""
    done = run_program(sys.executable, ("list_gpus",), _NVML, os.environ, context.clock)
    rows = read_objects(done.out)
    driver = next((row for row in rows if "count" in row), None)
    if driver is not None:
        devices = leave_out_closed([row["device"] for row in rows if isinstance(row.get("device"), dict)])
        hidden = sum(isinstance(row.get("device"), dict) for row in rows) - len(devices)
        counted = {**driver, "count": driver["count"] - hidden}
        return Answer({**counted, "devices": devices, "source": "NVML"}, done.trouble)
    second = ask_smi(context)
    first = "its library is not here" if "Library Not Found" in done.err else done.trouble
    return Answer(second.data, f"NVML: {first}; nvidia-smi: {second.reason or 'answers'}")


def leave_out_closed(devices: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the devices that this process may open, numbered as CUDA numbers them: without the others."""
    kept = [device for device in devices if not device.get("closed")]
    return kept if len(kept) == len(devices) else [{**device, "index": at} for at, device in enumerate(kept)]


def ask_smi(context: Context) -> Answer:
    """Ask nvidia-smi for the devices."""
    program = which("nvidia-smi", context.environment)
    if program is None:
        return Answer(None, "not on PATH")
    query = [program, f"--query-gpu={_SMI_FIELDS}", "--format=csv,noheader,nounits"]
    done = run_child(query, _NVML, context.environment, context.clock)
    if not done.is_good:
        return Answer(None, done.trouble)
    devices = [device for line in done.out.splitlines() if (device := read_smi_line(line))]
    if not devices:
        return Answer(None, "it lists no GPU")
    driver = devices[0]["driver"]
    return Answer({"driver": driver, "cuda": None, "count": len(devices), "devices": devices, "source": "nvidia-smi"})


def read_smi_line(line: str) -> dict[str, Any] | None:
    """Read one row of nvidia-smi's table; memory in MiB becomes bytes."""
    parts = [part.strip() for part in line.split(",")]
    if len(parts) != 7 or not parts[0].isdecimal():
        return None
    index, name, uuid, total, free, driver, capability = parts
    sizes = [int(size) << 20 if size.isdecimal() and len(size) < 12 else None for size in (total, free)]
    numbers = [int(part) for part in capability.split(".") if part.isdecimal()]
    return {
        "index": int(index),
        "name": name,
        "uuid": uuid,
        "total": sizes[0],
        "free": sizes[1],
        "driver": driver,
        "capability": numbers if len(numbers) == 2 else None,
    }


def observe_python(context: Context) -> Answer:
    """List the interpreter's distributions without importing them; what start-up hooks print is passed over."""
    done = run_in_launch("list_packages", _NVML, context)
    rows = read_objects(done.out)
    interpreter = next((row for row in rows if "base_prefix" in row), None)
    if interpreter is None:
        return Answer(None, done.trouble or "it printed nothing")
    packages: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        if {"name", "version", "folder"} <= row.keys():
            packages.setdefault(str(row["name"]), []).append(row)
    editables = [str(row["editable"]) for row in rows if "editable" in row]
    return Answer({"interpreter": interpreter, "packages": packages, "editables": editables}, done.trouble)


def observe_imports(context: Context) -> Answer:
    """Import torch and the compiled packages in the launch's interpreter."""
    done = run_in_launch("try_imports", _IMPORTS, context)
    found = {str(row.pop("attempt")): row for row in read_objects(done.out) if "attempt" in row}
    if not found and done.trouble:
        found = {"torch": {"error": done.trouble}} if done.code is not None else {}
    return Answer(found or None, done.trouble)


def observe_codecs(context: Context) -> Answer:
    """Load the FFmpeg libraries in the launch's interpreter."""
    done = run_in_launch("load_codecs", _SHORT, context)
    rows = read_objects(done.out)
    cores = next((row["cores"] for row in rows if "cores" in row), None)
    if cores is None:
        return Answer(None, done.trouble or "it printed nothing")
    return Answer({"cores": cores, "libraries": [row for row in rows if "avutil" in row]})


def observe_paths(context: Context) -> Answer:
    """Look at the folders that a launch writes to or reads from; some may lie on a dead file system."""
    paths = list_paths(context)
    done = run_program(sys.executable, ("look_at_paths", *paths), _SHORT, os.environ, context.clock)
    found = {str(row.pop("path")): row for row in read_objects(done.out) if "path" in row}
    late = [path for path in paths if path not in found]
    hangs = "no answer" in done.trouble
    return Answer(found, f"{late[0]} does not answer ({done.trouble})" if late and hangs else done.trouble)


def list_paths(context: Context) -> tuple[str, ...]:
    """List the folders that a server writes to, /dev/shm and the model's places."""
    environment = context.environment
    caches = list_caches(environment).values()
    paths = (*caches, "/dev/shm", *list_model_places(context.launch, environment))  # noqa: S108 - only looked at
    return tuple(dict.fromkeys(path for path in paths if path and "\0" not in path))


def observe_kernel(context: Context) -> Answer:
    """Read the kernel's log."""
    program = which("dmesg", context.environment)
    if program is None:
        return Answer(None, "dmesg is not installed")
    done = run_child([program], _SHORT, context.environment, context.clock)
    return Answer(done.out if done.is_good else None, done.trouble)


def observe_rendezvous(context: Context) -> Answer:
    """Resolve the host of --dist-init-addr."""
    address = context.value("dist_init_addr")
    if not isinstance(address, str) or not address:
        return Answer(None, "no --dist-init-addr")
    host = address.rsplit("://", 1)[-1].rsplit(":", 1)[0].strip("[]")
    done = run_program(sys.executable, ("resolve_name", host), _SHORT, context.environment, context.clock)
    rows = read_objects(done.out)
    return Answer(rows[0].get("addresses") if rows else None, done.trouble)


def observe_hub(context: Context) -> Answer:
    """Ask the model hub for an answer, only when the user allows the network."""
    if not context.online:
        return Answer(None, "--online was not given")
    endpoint = context.environment.get("HF_ENDPOINT") or "https://huggingface.co"
    if not endpoint.startswith(("https://", "http://")):
        return Answer(None, f"HF_ENDPOINT is no address: {endpoint[:80]}")
    done = run_program(sys.executable, ("resolve_name", "--fetch", endpoint), 10.0, context.environment, context.clock)
    rows = read_objects(done.out)
    return Answer(rows[0].get("status") if rows else None, done.trouble)


OBSERVERS: Mapping[str, Callable[[Context], Answer]] = MappingProxyType(
    {
        "imports": observe_imports,  # takes longest, so it is started first
        "gpus": observe_gpus,
        "python": observe_python,
        "codecs": observe_codecs,
        "paths": observe_paths,
        "kernel": observe_kernel,
        "rendezvous": observe_rendezvous,
        "hub": observe_hub,
    }
)
"""Probes name what they need in NEEDS; only that is looked at."""


def run_in_launch(program: str, seconds: float, context: Context) -> Done:
    """Run a program in the launch's interpreter and environment."""
    if context.python.path is None:
        return Done(None, "", "", context.python.origin)
    return run_program(context.python.path, (program,), seconds, context.environment, context.clock)


def run_program(
    python: str, words: tuple[str, ...], seconds: float, environment: Mapping[str, str], clock: Clock
) -> Done:
    """Run one of our programs (its name, then arguments) by its text: sys.path then begins as `python -m` has it."""
    with open(os.path.join(_PROGRAMS, f"{words[0]}.py"), encoding="utf-8") as stream:
        text = stream.read()
    quiet = {**environment, "PYTHONDONTWRITEBYTECODE": "1", "PYTHONIOENCODING": "utf-8"}
    lean = ["-I", "-S"] if python == sys.executable and words[0] in _LEAN else []
    return run_child([python, *lean, "-c", text, *words[1:]], seconds, quiet, clock)


def read_objects(text: str) -> list[dict[str, Any]]:
    """Read JSON objects, one a line; what a broken child printed beside them is skipped."""
    found = []
    for line in text.splitlines():
        if line.startswith("{"):
            try:
                row = json.loads(line)
            except (ValueError, RecursionError):
                continue
            found.append(row)
    return found

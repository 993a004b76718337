"""What an earlier server left behind: processes without their parent, and segments of shared memory."""

from __future__ import annotations

import contextlib
import os
import shlex
import time
from collections.abc import Iterator
from typing import NamedTuple

from doctor.memory.units import GIB, MIB, format_size
from doctor.probes.base.context import Context
from doctor.probes.base.files import place
from doctor.probes.base.result import Result, make_ok, make_unknown, make_warning

NAME = "leftovers"
GROUP = "launch"
SUMMARY = "no remains of an earlier server"
NEEDS = ()
INSIDE = False

_MAX_PROCESSES = 20_000
_MOMENT = 0.3
"""Seconds; a parent that waits for its children collects them within a few milliseconds."""
# Names in /dev/shm of SGLang, NCCL and CUDA (source study of 0.5.23; recordings on the CPU show sgl* and sem.mp-*).
_OWN = ("sgl_shm_", "sglang_loads_", "multi_tokenizer_args_")
_SEGMENTS = (*_OWN, "nccl-", "cuda.shm.", "psm_", "sem.mp-")
# What a process that starts schedulers is called: its program, or the title that it gave itself.
_PARENTS = ("python", "pypy", "sglang", "ray")


class Process(NamedTuple):
    """A process of SGLang: its parent, its command line, and whether it is a zombie."""

    pid: int
    parent: int
    line: str
    zombie: bool


def probe(context: Context) -> Iterator[Result]:
    """Look at processes first; segments count as remains only when no server runs."""
    if not any(name.isdecimal() for name in context.list("/proc")):
        yield make_unknown(NAME, SUMMARY, "/proc shows no processes")
        return
    processes = list(list_processes(context))
    alive = [process for process in processes if process.line.startswith("sglang::") and not process.zombie]
    orphans = [process for process in alive if is_orphan(context, process)]
    zombies = list_stale(context, processes)
    if orphans:
        evidence = tuple(f"pid {process.pid} {process.line[:80]}, parent {process.parent}" for process in orphans[:8])
        fixes = ("kill " + " ".join(str(process.pid) for process in orphans[:32]),)
        yield make_warning(NAME, f"{len(orphans)} process(es) of an earlier server run without it", evidence, fixes)
    if zombies:
        evidence = tuple(f"pid {process.pid}, parent {process.parent}" for process in zombies[:8])
        parents = sorted({process.parent for process in zombies if process.parent > 1})
        kills = tuple(f"kill {parent}   # its parent" for parent in parents)
        yield make_warning(NAME, f"{len(zombies)} dead process(es) of a server were never collected", evidence, kills)
    running = [process for process in processes if not process.zombie]
    segments = [] if running else list_segments(context)
    if sum(size for _, size in segments) > MIB:
        yield describe_segments(segments)
    elif not orphans and not zombies:
        note = f"; {len(running)} process(es) of a running server" if running else ""
        yield make_ok(NAME, SUMMARY + note)


def list_processes(context: Context) -> Iterator[Process]:
    """Yield SGLang's processes; a zombie has no command line, only the name its scheduler gave itself."""
    for name in [name for name in context.list("/proc") if name.isdecimal()][:_MAX_PROCESSES]:
        line = (context.read(f"/proc/{name}/cmdline") or "").replace("\0", " ").strip()
        stat = context.read(f"/proc/{name}/stat") or ""
        inner, _, rest = stat.partition("(")[2].rpartition(")")
        fields = rest.split()
        if len(fields) < 2 or not fields[1].isdecimal():
            continue
        is_zombie = fields[0] == "Z" and inner.startswith("sglang")
        if line.startswith("sglang::") or is_server(line.split()) or is_zombie:
            yield Process(int(name), int(fields[1]), line or inner, is_zombie)


def list_stale(context: Context, processes: list[Process]) -> list[Process]:
    """Return the zombies that stay: every process is one for a moment, until its parent collects it."""
    zombies = [process for process in processes if process.zombie]
    if zombies:
        time.sleep(_MOMENT)
    return [
        process
        for process in zombies
        if (context.read(f"/proc/{process.pid}/stat") or "").rpartition(")")[2].split()[:1] == ["Z"]
    ]


def is_server(words: list[str]) -> bool:
    """Tell `python -m sglang.launch_server` and `sglang serve` from commands that only mention them."""
    head = [word.rpartition("/")[2] for word in words[:4]]
    return "sglang.launch_server" in head[:3] or head[:2] == ["sglang", "serve"] or head[1:3] == ["sglang", "serve"]


def is_orphan(context: Context, process: Process) -> bool:
    """Tell whether a process's parent is one that only collects orphans.

    A living parent is a Python: the server, or any program that holds an Engine. In a container process 1 may be it.
    """
    folder = f"/proc/{process.parent}"
    words = (context.read(f"{folder}/cmdline") or "").split("\0")
    names = {os.path.basename(words[0]), (context.read(f"{folder}/comm") or "").strip()}
    with contextlib.suppress(OSError):
        names.add(os.path.basename(os.readlink(place(context.root, f"{folder}/exe"))))
    return any(names) and not any(name.startswith(_PARENTS) for name in names)


def list_segments(context: Context) -> list[tuple[str, int]]:
    """List names and sizes of the segments that servers make, of this user, and that no process maps."""
    found = {}
    for name in context.list("/dev/shm")[:10_000]:  # noqa: S108 - looked at, not written to
        if name.startswith(_SEGMENTS):
            with contextlib.suppress(OSError):
                state = os.stat(place(context.root, f"/dev/shm/{name}"))  # noqa: S108 - same
                if state.st_uid == os.geteuid() or os.geteuid() == 0:
                    found[name] = state.st_blocks * 512
    if sum(found.values()) > MIB:
        for name in list_mapped(context):
            found.pop(name, None)
    return list(found.items())


def list_mapped(context: Context) -> Iterator[str]:
    """Yield the names in /dev/shm that a process has mapped: those of another program that runs."""
    for pid in [name for name in context.list("/proc") if name.isdecimal()][:_MAX_PROCESSES]:
        for line in (context.read(f"/proc/{pid}/maps") or "").splitlines():
            if "/dev/shm/" in line:  # noqa: S108 - same
                yield line.rpartition("/dev/shm/")[2].removesuffix(" (deleted)")  # noqa: S108 - same


def describe_segments(segments: list[tuple[str, int]]) -> Result:
    """Say which segments may go; those of SGLang's own names are safe, of the others somebody should be asked."""
    total = sum(size for _, size in segments)
    evidence = tuple(f"{name}: {format_size(size)}" for name, size in sorted(segments, key=lambda one: -one[1])[:6])
    own = [shlex.quote(f"/dev/shm/{name}") for name, _ in segments if name.startswith(_OWN)]  # noqa: S108 - same
    fixes = [f"rm {' '.join(own[:16])}"] if own else []
    if len(own) < len(segments):
        fixes.append("sudo fuser -v /dev/shm/*   # who uses the others; no process that is visible here does")
    summary = f"{len(segments)} segments of an earlier server hold {format_size(total)} of memory"
    found = make_warning(NAME, summary, evidence, tuple(fixes))
    return found if total > GIB else found._replace(severity="info")

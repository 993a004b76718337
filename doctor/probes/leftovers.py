"""What an earlier server left behind: processes without their parent, and segments of shared memory."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import NamedTuple

from doctor.memory.units import MIB, format_size
from doctor.probes.base.context import Context
from doctor.probes.base.files import place
from doctor.probes.base.result import Result, make_ok, make_warning

NAME = "leftovers"
GROUP = "launch"
SUMMARY = "no remains of an earlier server"
NEEDS = ()

_MAX_PROCESSES = 20_000
# Names in /dev/shm of SGLang, NCCL and CUDA (source study of 0.5.23; recordings on the CPU show sgl* and sem.mp-*).
_SEGMENTS = ("sgl_shm_", "sglang_loads_", "multi_tokenizer_args_", "nccl-", "cuda.shm.", "psm_", "sem.mp-")
_SERVER = ("sglang", "launch_server")


class Process(NamedTuple):
    """A process of SGLang: its parent, its command line, and whether it is a zombie."""

    pid: int
    parent: int
    line: str
    zombie: bool


def probe(context: Context) -> Iterator[Result]:
    """Look at processes first; segments count as remains only when no server runs."""
    processes = list(list_processes(context))
    alive = [process for process in processes if process.line.startswith("sglang::") and not process.zombie]
    orphans = [process for process in alive if is_orphan(context, process)]
    zombies = [process for process in processes if process.zombie]
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
    segments = [] if running else list(list_segments(context))
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


def is_server(words: list[str]) -> bool:
    """Tell `python -m sglang.launch_server` and `sglang serve` from commands that only mention them."""
    head = [word.rpartition("/")[2] for word in words[:4]]
    return "sglang.launch_server" in head[:3] or head[:2] == ["sglang", "serve"] or head[1:3] == ["sglang", "serve"]


def is_orphan(context: Context, process: Process) -> bool:
    """Tell whether a process's parent is none of SGLang's (in a container, process 1 may be the server itself)."""
    line = (context.read(f"/proc/{process.parent}/cmdline") or "").replace("\0", " ")
    return not any(word in line for word in _SERVER)


def list_segments(context: Context) -> Iterator[tuple[str, int]]:
    """Yield names and sizes of segments that servers make."""
    for name in context.list("/dev/shm")[:10_000]:  # noqa: S108 - looked at, not written to
        if name.startswith(_SEGMENTS):
            try:
                yield name, os.stat(place(context.root, f"/dev/shm/{name}")).st_blocks * 512  # noqa: S108 - same
            except OSError:
                continue


def describe_segments(segments: list[tuple[str, int]]) -> Result:
    """Say which segments may go; only those that SGLang itself names are safe to remove by pattern."""
    total = format_size(sum(size for _, size in segments))
    evidence = tuple(f"{name}: {format_size(size)}" for name, size in sorted(segments, key=lambda one: -one[1])[:6])
    fixes = (
        "rm /dev/shm/sgl_shm_* /dev/shm/sglang_loads_*   # while no server runs",
        "lsof /dev/shm   # who uses the others",
    )
    return make_warning(NAME, f"{len(segments)} segments of an earlier server hold {total} of memory", evidence, fixes)

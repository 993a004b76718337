"""The host's memory: how much there is, what limits it, and settings that make allocations fail early."""

from __future__ import annotations

from collections.abc import Iterator

from doctor.memory.host import MAIN_BYTES, RANK_BYTES
from doctor.memory.units import GIB, format_size
from doctor.probes.base.context import Context
from doctor.probes.base.devices import list_cgroups, read_limit
from doctor.probes.base.files import read_fields
from doctor.probes.base.result import Result, make_error, make_ok, make_unknown, make_warning

NAME = "memory"
GROUP = "host"
SUMMARY = "the host has memory for the server's processes"
NEEDS = ()
INSIDE = False


def probe(context: Context) -> Iterator[Result]:
    """Compare what is available with what the processes take without any offload or cache."""
    fields = read_fields(context.read("/proc/meminfo"))
    available, total = fields.get("MemAvailable"), fields.get("MemTotal")
    if available is None or total is None:
        yield make_unknown(NAME, SUMMARY, "/proc/meminfo is not readable")
        return
    ranks = context.count("tp_size") * context.count("pp_size") // context.count("nnodes") or 1
    needed = MAIN_BYTES + RANK_BYTES * ranks
    limit, used = read_limit(context), read_use(context)
    room = available if limit is None else min(available, limit - (used or 0))
    swap = format_size(fields.get("SwapTotal", 0)) if fields.get("SwapTotal") else "none"
    evidence = [f"{format_size(available)} of {format_size(total)} available, swap {swap}"]
    if limit is not None:
        evidence.append(f"container limit {format_size(limit)}, {format_size(used or 0)} used")
    if room < needed:
        found = say_short(ranks, needed, room, limit is not None and room < available, tuple(evidence))
    else:
        found = make_ok(NAME, "; ".join(evidence))
    yield found._replace(facts=(("host.memory", str(total)), ("host.memory_limit", str(limit))))
    yield from check_settings(context, fields)


def read_use(context: Context) -> int | None:
    """Return the bytes that this control group uses now and cannot give back."""
    for folder in reversed(list_cgroups(context)):
        for name in ("memory.current", "memory.usage_in_bytes"):
            used = context.read_number(f"{folder}/{name}")
            if used is not None:
                files = read_fields(context.read(f"{folder}/memory.stat")).get("inactive_file", 0)
                return max(0, used - files)
    return None


def say_short(ranks: int, needed: int, room: int, is_container: bool, evidence: tuple[str, ...]) -> Result:
    """Say that not even the processes fit."""
    summary = f"{ranks} rank(s) take about {format_size(needed)} of host memory, {format_size(room)} can be had"
    fix = (
        "raise the container's --memory or the pod's limit"
        if is_container
        else "stop other programs: ps aux --sort=-rss | head"
    )
    return make_error(NAME, summary, evidence, (fix,))


def check_settings(context: Context, fields: dict[str, int]) -> Iterator[Result]:
    """Yield strict overcommit and memory that hugepages hold."""
    if context.read_number("/proc/sys/vm/overcommit_memory") == 2:
        room = fields.get("CommitLimit", 0) - fields.get("Committed_AS", 0)
        if room < 64 * GIB:
            # CUDA reserves address space for the memory of all GPUs and the host
            evidence = (f"vm.overcommit_memory=2, {format_size(max(0, room))} may still be promised",)
            fixes = ("sudo sysctl vm.overcommit_memory=0",)
            yield make_error(NAME, "strict overcommit: CUDA's reservations will be refused", evidence, fixes)
    pages, free = fields.get("HugePages_Total", 0), fields.get("HugePages_Free", 0)
    held = free * fields.get("Hugepagesize", 0)
    if pages and held > fields.get("MemTotal", 0) // 5:
        summary = f"{format_size(held)} lie in unused huge pages, which SGLang does not use"
        yield make_warning(NAME, summary, (), ("sudo sysctl vm.nr_hugepages=0",))
    swap = fields.get("SwapTotal", 0) - fields.get("SwapFree", 0)
    if swap > GIB and swap > fields.get("MemAvailable", 0):
        summary = f"{format_size(swap)} are swapped out: loading will be slow"
        yield make_warning(NAME, summary, (), ("stop other programs, then: sudo swapoff -a && sudo swapon -a",))

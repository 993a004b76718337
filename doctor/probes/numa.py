"""NUMA nodes and CPU sets: SGLang binds ranks with numactl, which fails where the container forbids it."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator

from doctor.launch.versions import sort_key
from doctor.probes.base.children import run_child
from doctor.probes.base.context import Context
from doctor.probes.base.edits import set_variable
from doctor.probes.base.files import list_names
from doctor.probes.base.interpreter import which
from doctor.probes.base.result import Result, add_facts, make_error, make_ok, make_unknown, make_warning

NAME = "numa"
GROUP = "host"
SUMMARY = "ranks may be bound to their NUMA nodes"
NEEDS = ()
INSIDE = True

VARIABLE = "SGLANG_NUMA_BIND_V2"
# Schedulers start behind `numactl --cpunodebind=N --membind=N` by default from 0.5.6 on; from 0.5.15 on SGLang
# tries that first and goes on without it (srt/utils/numa_utils.py of the wheels 0.5.6 to 0.5.23).
_SINCE, _TRIED_SINCE = "0.5.6", "0.5.15"
_MAX_NODES = 8
_SPAN = re.compile(r"(\d{1,9})(?:-(\d{1,9}))?")


def probe(context: Context) -> Iterator[Result]:
    """Look at nodes, allowed CPUs and what the binding needs."""
    nodes = [name for name in list_names(context.root, "/sys/devices/system/node") if name[4:].isdecimal()]
    allowed = read_status(context, "Cpus_allowed_list")
    memory = read_status(context, "Mems_allowed_list")
    if not nodes and not context.list("/sys/devices/system"):
        yield make_unknown(NAME, SUMMARY, "/sys/devices/system is not there")
        return
    problems = [*check_binding(context, nodes, memory)] if len(nodes) > 1 else []
    problems += check_cpus(context)
    good = make_ok(NAME, f"{len(nodes) or 1} NUMA node(s), CPUs {allowed or '?'}")
    yield from add_facts(problems or [good], (("host.numa_nodes", str(len(nodes))), ("host.cpus", str(allowed))))


def read_status(context: Context, field: str) -> str | None:
    """Return a field of /proc/self/status."""
    for line in (context.read("/proc/self/status") or "").splitlines():
        if line.startswith(f"{field}:"):
            return line.partition(":")[2].strip()
    return None


def check_binding(context: Context, nodes: list[str], memory: str | None) -> Iterator[Result]:
    """Yield what makes the numactl wrapper end before the scheduler starts (exit code 1, no traceback)."""
    version = sort_key(context.launch.table.version if context.launch else "9999")
    is_on = context.environment.get(VARIABLE, "1").lower() not in ("0", "false")
    program = which("numactl", context.environment)
    if program is None or not is_on or not context.uses_gpu or version < sort_key(_SINCE):
        return
    refused = next(filter(None, (try_binding(context, program, node[4:]) for node in nodes[:_MAX_NODES])), None)
    if refused is None:
        return
    evidence = (refused, f"{len(nodes)} NUMA nodes, this process may use memory of node(s) {memory or '?'}")
    fixes = (f"export {VARIABLE}=0", "in a container: docker run with --cap-add SYS_NICE")
    if version < sort_key(_TRIED_SINCE):
        summary = "numactl may not bind here, and this SGLang's schedulers start behind it: they end with code 1"
        yield make_error(NAME, summary, evidence, fixes, (set_variable(context, VARIABLE, "0"),))
    else:
        summary = "numactl may not bind here: SGLang notices and goes on unbound, somewhat slower"
        yield make_warning(NAME, summary, evidence, fixes[1:])._replace(severity="info")


def try_binding(context: Context, program: str, node: str) -> str | None:
    """Return why numactl refuses to bind to a node, None when it does as it is told."""
    arguments = [f"--cpunodebind={node}", f"--membind={node}"]
    done = run_child([program, *arguments, "true"], 3, context.environment, context.clock)
    return None if done.is_good else f"numactl {' '.join(arguments)}: {done.trouble}"


def count_list(text: str | None) -> int | None:
    """Count the numbers of a list such as `0-3,8`; None when it is not one."""
    spans = [_SPAN.fullmatch(part.strip()) for part in (text or "").split(",")]
    counts = [int(span[2] or span[1]) - int(span[1]) + 1 for span in spans if span]
    return sum(counts) if len(counts) == len(spans) and min(counts) > 0 else None


def check_cpus(context: Context) -> Iterator[Result]:
    """Yield fewer CPUs than ranks: each scheduler is a busy loop."""
    ranks = context.count("tp_size") * context.count("pp_size") // context.count("nnodes") or 1
    count = (
        len(os.sched_getaffinity(0)) if context.root == "/" else count_list(read_status(context, "Cpus_allowed_list"))
    )
    quota = read_quota(context)
    cpus = min(filter(None, (count, quota)), default=None)
    if cpus is not None and cpus < ranks + 1:
        summary = f"{cpus:g} CPU(s) for {ranks} rank(s), the tokenizer and the detokenizer: expect stalls"
        yield make_warning(NAME, summary, (), ("nproc   # in a container: widen --cpus or --cpuset-cpus",))


def read_quota(context: Context) -> float | None:
    """Return the CPUs that the control group's quota allows, None without one."""
    words = (context.read("/sys/fs/cgroup/cpu.max") or "").split()
    if len(words) == 2 and words[0].isdecimal() and words[1].isdecimal() and int(words[1]):
        return int(words[0]) / int(words[1])
    return None

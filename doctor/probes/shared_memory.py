"""Shared memory (/dev/shm), through which the ranks of one host talk to each other."""

from __future__ import annotations

from collections.abc import Iterator

from doctor.memory.units import GIB, MIB, format_size
from doctor.probes.base.context import Context
from doctor.probes.base.result import Result, make_error, make_ok, make_unknown, make_warning

NAME = "shared-memory"
GROUP = "host"
SUMMARY = "shared memory /dev/shm is large enough"
NEEDS = ("paths",)
INSIDE = True

_PATH = "/dev/shm"  # noqa: S108 - looked at, not written to
# Docker's default; NCCL's buffers and SGLang's own segments outgrow it with the second rank, and NCCL says
# "unhandled system error" or dies with a bus error (public reports of 64 MB containers).
_DOCKER = 64 * MIB
_RANK = GIB
_FIXES = (
    "docker run with --shm-size 32g, or --ipc=host",
    "in Kubernetes: an emptyDir of medium Memory at /dev/shm",
)


def probe(context: Context) -> Iterator[Result]:
    """Compare the free space with the number of ranks."""
    answer = context.look("paths")
    found = (answer.data or {}).get(_PATH)
    if not found or "free" not in found:
        yield make_unknown(NAME, SUMMARY, answer.reason or "it did not answer")
        return
    if not found["exists"]:
        yield make_error(
            NAME, "shared memory /dev/shm does not exist", (), ("sudo mount -t tmpfs -o size=32g tmpfs /dev/shm",)
        )
        return
    ranks = context.count("tp_size") * context.count("pp_size") // context.count("nnodes") or 1
    free, total = int(found["free"]), int(found["total"])
    evidence = (f"{format_size(free)} of {format_size(total)} free",)
    facts = (("host.shm", str(total)),)
    if not found["writable"]:
        summary = "shared memory /dev/shm is not writable for this user"
        yield make_error(NAME, summary, evidence, ("sudo chmod 1777 /dev/shm",))._replace(facts=facts)
    elif ranks > 1 and free < min(_RANK, _DOCKER * 4) * ranks:
        severe = make_error if free <= _DOCKER * ranks else make_warning
        yield severe(
            NAME, f"shared memory /dev/shm is too small for {ranks} ranks: NCCL fails", evidence, _FIXES
        )._replace(facts=facts)
    elif free < _DOCKER // 2:
        fixes = ("ls -lS /dev/shm | head", *_FIXES)
        yield make_warning(NAME, "shared memory /dev/shm is nearly full", evidence, fixes)._replace(facts=facts)
    else:
        yield make_ok(NAME, f"shared memory /dev/shm: {evidence[0]}, {ranks} rank(s)", facts=facts)

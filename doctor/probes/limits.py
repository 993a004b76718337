"""Limits of the process (ulimit) that the server would inherit."""

from __future__ import annotations

import resource
from collections.abc import Iterator, Mapping
from types import MappingProxyType

from doctor.memory.units import GIB, format_size
from doctor.probes.base.context import Context
from doctor.probes.base.result import Result, add_facts, make_error, make_ok, make_warning

NAME = "limits"
GROUP = "host"
SUMMARY = "ulimits are high enough"
NEEDS = ()
INSIDE = True

Limits = Mapping[str, int]
# A server of one rank failed at 64 open files with "Too many open files" (recorded, 0.5.23); each rank and each
# connection needs more. SGLang raises the soft limit to 65535 as far as the hard one lets it (srt/utils/common.py).
_FILES = 1024
_THREADS = 4096


def probe(context: Context) -> Iterator[Result]:
    """Judge the limits of this process, which a server started from here inherits."""
    yield from judge(read_limits(), context)


def read_limits() -> Limits:
    """Read the limits; -1 stands for none."""
    names = {
        "nofile": resource.RLIMIT_NOFILE,
        "memlock": resource.RLIMIT_MEMLOCK,
        "nproc": resource.RLIMIT_NPROC,
        "as": resource.RLIMIT_AS,
    }
    found = {}
    for name, number in names.items():
        soft, hard = resource.getrlimit(number)
        found[name], found[f"{name} hard"] = soft, hard
    return MappingProxyType(found)


def judge(limits: Limits, context: Context) -> Iterator[Result]:
    """Yield what is too low for this launch."""
    problems = [*check_files(limits), *check_threads(limits), *check_memory(limits, context)]
    shown = {name: "unlimited" if value < 0 else str(value) for name, value in limits.items() if " " not in name}
    good = make_ok(NAME, ", ".join(f"{name} {value}" for name, value in shown.items()))
    yield from add_facts(problems or [good], ((f"limit.{name}", value) for name, value in shown.items()))


def is_below(value: int, wanted: int) -> bool:
    """Tell whether a limit is lower than wanted; a negative one is none."""
    return 0 <= value < wanted


def check_files(limits: Limits) -> Iterator[Result]:
    """Yield a limit on open files that a server runs into."""
    soft, hard = limits["nofile"], limits["nofile hard"]
    fixes = (
        "ulimit -n 65535",
        "in a container: docker run with --ulimit nofile=65535:65535",
        "in a systemd unit: LimitNOFILE=65535",
    )
    if is_below(hard, _FILES):
        yield make_error(NAME, f"at most {hard} open files: the server needs {_FILES} and more", (), fixes[1:])
    elif is_below(soft, _FILES):
        yield make_warning(NAME, f"{soft} open files: SGLang raises that itself, other programs do not", (), fixes)


def check_threads(limits: Limits) -> Iterator[Result]:
    """Yield a limit on processes and threads."""
    if is_below(limits["nproc"], _THREADS):
        fixes = ("ulimit -u unlimited", "in a container: docker run with --pids-limit -1")
        yield make_warning(NAME, f"at most {limits['nproc']} processes and threads of this user", (), fixes)


def check_memory(limits: Limits, context: Context) -> Iterator[Result]:
    """Yield limits on address space and, for network cards that read memory themselves, on locked memory.

    Offload and HiCache do not count: a user with a limit of 64 KiB pinned 2 GiB by cudaHostAlloc and registered 1 GiB
    by cudaHostRegister, while mlock refused him 1 MiB (H200, driver 580).
    """
    if 0 <= limits["as"] < 1 << 40:
        size = format_size(limits["as"])
        yield make_error(NAME, f"address space is limited to {size}: CUDA reserves more", (), ("ulimit -v unlimited",))
    flags = ["--disaggregation-ib-device"] if context.value("disaggregation_ib_device") else []
    flags += ["--hicache-storage-backend"] if context.value("hicache_storage_backend") == "mooncake" else []
    if flags and is_below(limits["memlock"], GIB):
        size = format_size(limits["memlock"])
        fixes = ("ulimit -l unlimited", "in a container: docker run with --ulimit memlock=-1")
        summary = f"locked memory is limited to {size}, and {' and '.join(flags)} registers memory with a network card"
        yield make_warning(NAME, summary, (), fixes)

"""Host memory of a launch: processes, pinned offload, HiCache, page cache and /dev/shm."""

from __future__ import annotations

from collections.abc import Mapping

from doctor.memory import config as cfg
from doctor.memory.gpus import Machine
from doctor.memory.offload import Offload
from doctor.memory.shapes import Row
from doctor.memory.units import GIB, MIB, format_size

# Measured on H200 machines with 0.5.15.post1 and a model of a few MB, peak over start, capture and 48
# requests: 3.6 GiB with one rank, 6.6 GiB with two.
MAIN_BYTES = 640 * MIB
RANK_BYTES = 3 * GIB
# HiCache leaves this much of the host's memory alone (HICACHE_HOST_MEMORY_RESERVE_BYTES, 0.4.6 to 0.5.23).
HICACHE_RESERVE = 10 * GIB
HICACHE_RATIO = 2.0
# Docker's default /dev/shm; NCCL and the ranks' own buffers outgrow it with the second rank.
DOCKER_SHM = 64 * MIB


def list_host_rows(
    offload: Offload, local_ranks: int, cache_size: int, file_bytes: int, arguments: Mapping[str, object]
) -> tuple[Row, ...]:
    """Return the rows of the host table; the last, page cache, can be reclaimed and is not in the peak."""
    rows = [
        Row(
            "processes",
            MAIN_BYTES + RANK_BYTES * local_ranks,
            f"main, tokenizer, detokenizer and {local_ranks} scheduler(s), measured on an H200",
        )
    ]
    if offload.pinned:
        exact = format_size(offload.moved * local_ranks)
        source = f"{exact} of weights, each tensor rounded up to a power of two, {local_ranks} rank(s)"
        rows.append(Row("pinned offload", offload.pinned * local_ranks, source))
    hicache = measure_hicache(cache_size, arguments)
    if hicache:
        rows.append(Row("HiCache", hicache * local_ranks, describe_hicache(arguments)))
    loading = measure_loading(file_bytes, local_ranks, arguments)
    if loading:
        rows.append(Row("loader", loading, "--weight-loader-disable-mmap reads whole files into memory"))
    rows.append(Row("page cache", file_bytes, "the weight files while loading; given back when needed"))
    return tuple(rows)


def sum_peak(rows: tuple[Row, ...]) -> int:
    """Return the bytes that cannot be given back: all rows but the page cache."""
    return sum(row.size for row in rows if row.name != "page cache")


def measure_hicache(cache_size: int, arguments: Mapping[str, object]) -> int:
    """Return one rank's host KV pool: --hicache-size (10^9 bytes) or --hicache-ratio times the GPU pool."""
    if not cfg.get_flag(arguments, "enable_hierarchical_cache"):
        return 0
    size = cfg.get_float(arguments, "hicache_size", 0.0)
    ratio = cfg.get_float(arguments, "hicache_ratio", HICACHE_RATIO)
    return int(size * 1e9 if size else cache_size * ratio)


def describe_hicache(arguments: Mapping[str, object]) -> str:
    """Return which flag decided HiCache's size."""
    size = cfg.get_float(arguments, "hicache_size", 0.0)
    if size:
        return f"--hicache-size {size:g} on every rank"
    return f"--hicache-ratio {cfg.get_float(arguments, 'hicache_ratio', HICACHE_RATIO):g} of the GPU pool"


def measure_loading(file_bytes: int, local_ranks: int, arguments: Mapping[str, object]) -> int:
    """Return the memory of files read without mmap, taking 5 GB for the largest (the usual shard size)."""
    off = cfg.get_flag(arguments, "weight_loader_disable_mmap")
    return min(file_bytes, 5 * 10**9) * local_ranks if off else 0


def get_host_limit(machine: Machine) -> int | None:
    """Return what the launch may take: the container's limit or the available memory, whichever is less."""
    known = [n for n in (machine.ram_available or machine.ram, machine.memory_limit) if n is not None]
    return min(known, default=None)


def find_host_faults(rows: tuple[Row, ...], machine: Machine, local_ranks: int) -> list[str]:
    """Return why the host will not carry this launch."""
    limit = get_host_limit(machine)
    peak = sum_peak(rows)
    faults = []
    if limit is not None and peak > limit:
        faults.append(f"the host needs {format_size(peak)} and has {format_size(limit)}")
    hicache = sum(row.size for row in rows if row.name == "HiCache")
    if limit is not None and hicache and hicache + HICACHE_RESERVE > limit:
        faults.append(
            f"HiCache asks for {format_size(hicache)}, but SGLang keeps {format_size(HICACHE_RESERVE)} of "
            f"{format_size(limit)} free: lower --hicache-ratio or --hicache-size"
        )
    if machine.shm is not None and local_ranks > 1 and machine.shm <= DOCKER_SHM:
        size = format_size(machine.shm)
        faults.append(f"{local_ranks} ranks need more than the {size} of /dev/shm (--shm-size 32g, --ipc=host)")
    return faults

import pytest

from doctor.memory.gpus import Machine
from doctor.memory.host import find_host_faults, get_host_limit, list_host_rows, measure_hicache, sum_peak
from doctor.memory.offload import NO_OFFLOAD
from doctor.memory.units import GIB, MIB

from .helpers import get_row

PINNED = NO_OFFLOAD._replace(kind="groups", moved=10 * GIB, pinned=14 * GIB)


def test_list_host_rows_multiplies_by_the_ranks_of_this_host():
    rows = list_host_rows(PINNED, 4, 0, 0, {})
    assert get_row(rows, "pinned offload") == 56 * GIB


@pytest.mark.parametrize(("ranks", "measured"), [(1, 3.63), (2, 6.62)])
def test_list_host_rows_of_the_recorded_processes(ranks, measured):
    """Largest drop of available memory in the recordings healthy (one rank) and tp2 (two)."""
    assert get_row(list_host_rows(NO_OFFLOAD, ranks, 0, 0, {}), "processes") / GIB == pytest.approx(measured, rel=0.05)


def test_sum_peak_leaves_the_page_cache_out():
    rows = list_host_rows(NO_OFFLOAD, 1, 0, 500 * GIB, {})
    assert get_row(rows, "page cache") == 500 * GIB
    assert sum_peak(rows) < 10 * GIB


def test_loader_without_mmap_reads_files_into_memory():
    rows = list_host_rows(NO_OFFLOAD, 2, 0, 500 * GIB, {"weight_loader_disable_mmap": True})
    assert get_row(rows, "loader") == 2 * 5 * 10**9


@pytest.mark.parametrize(
    ("arguments", "size"),
    [
        ({}, 0),
        ({"enable_hierarchical_cache": True}, 20 * GIB),
        ({"enable_hierarchical_cache": True, "hicache_ratio": 1.5}, 15 * GIB),
        ({"enable_hierarchical_cache": True, "hicache_size": 30}, 30 * 10**9),
    ],
)
def test_measure_hicache(arguments, size):
    assert measure_hicache(10 * GIB, arguments) == size


@pytest.mark.parametrize(
    ("machine", "limit"),
    [
        (Machine(None), None),
        (Machine(None, ram=64, ram_available=50), 50),
        (Machine(None, ram=64, ram_available=50, memory_limit=40), 40),
        (Machine(None, memory_limit=40), 40),
        (Machine(None, ram=64), 64),
    ],
)
def test_get_host_limit(machine, limit):
    assert get_host_limit(machine) == limit


def test_find_host_faults_of_too_little_memory():
    rows = list_host_rows(PINNED, 1, 0, 0, {})
    assert "needs 17.6" in find_host_faults(rows, Machine(None, ram=16 * GIB), 1)[0]
    assert find_host_faults(rows, Machine(None, ram=32 * GIB), 1) == []


def test_find_host_faults_of_hicache_keeps_ten_gib_free():
    rows = list_host_rows(NO_OFFLOAD, 1, 20 * GIB, 0, {"enable_hierarchical_cache": True})
    faults = find_host_faults(rows, Machine(None, ram=48 * GIB), 1)
    assert len(faults) == 1
    assert "HiCache" in faults[0]


@pytest.mark.parametrize(("ranks", "shm", "faults"), [(1, 64, 0), (2, 64, 1), (2, 1024, 0)])
def test_find_host_faults_of_dockers_default_shared_memory(ranks, shm, faults):
    rows = list_host_rows(NO_OFFLOAD, ranks, 0, 0, {})
    assert len(find_host_faults(rows, Machine(None, shm=shm * MIB), ranks)) == faults


def test_find_host_faults_of_an_unknown_host_are_none():
    assert find_host_faults(list_host_rows(PINNED, 8, 0, 0, {}), Machine(None), 8) == []

"""Probes of the host group over a folder in place of /."""
# ruff: noqa: S108 - these folders are looked at, nothing is written to them

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from doctor.probes import limits, memory, numa, oom_kills, pressure, shared_memory
from doctor.probes.base.context import Answer
from doctor.probes.base.edits import correct_command
from tests.probes.helpers import (
    GIB,
    TP4,
    make_context,
    make_path,
    problems,
    run,
    statuses,
    write,
    write_program,
)

MEMINFO = "MemTotal:  {total} kB\nMemAvailable:  {available} kB\nSwapTotal: 0 kB\nSwapFree: 0 kB\n"


def write_memory(root, available, extra=""):
    write(root, "/proc/meminfo", MEMINFO.format(total=128 << 20, available=(available << 30) >> 10) + extra)


def test_memory_that_is_enough(tmp_path):
    write_memory(tmp_path, 64)
    assert statuses(memory, make_context(tmp_path, TP4)) == ["ok"]


def test_memory_less_than_the_processes_take(tmp_path):
    write_memory(tmp_path, 8)
    (found,) = problems(memory, make_context(tmp_path, TP4))
    assert "4 rank(s) take about 12.62 GiB" in found.summary


@pytest.mark.parametrize(
    ("path", "limit"), [("memory.max", "4294967296"), ("memory/memory.limit_in_bytes", "4294967296")]
)
def test_memory_of_a_container(tmp_path, path, limit):
    write_memory(tmp_path, 64)
    write(tmp_path, f"/sys/fs/cgroup/{path}", limit)
    (found,) = problems(memory, make_context(tmp_path, TP4))
    assert "container limit 4.00 GiB" in found.evidence[1]


def test_memory_limit_of_a_parent_group(tmp_path):
    write_memory(tmp_path, 64)
    write(tmp_path, "/proc/self/cgroup", "0::/system.slice/sglang.service\n")
    write(tmp_path, "/sys/fs/cgroup/system.slice/memory.max", "2147483648")
    write(tmp_path, "/sys/fs/cgroup/system.slice/sglang.service/memory.max", "max")
    assert problems(memory, make_context(tmp_path, TP4))


def test_memory_used_by_page_cache_can_be_given_back(tmp_path):
    write_memory(tmp_path, 64)
    write(tmp_path, "/sys/fs/cgroup/memory.max", str(20 * GIB))
    write(tmp_path, "/sys/fs/cgroup/memory.current", str(19 * GIB))
    write(tmp_path, "/sys/fs/cgroup/memory.stat", f"anon 1\ninactive_file {18 * GIB}\n")
    assert statuses(memory, make_context(tmp_path, TP4)) == ["ok"]


def test_memory_with_strict_overcommit(tmp_path):
    write_memory(tmp_path, 64, "CommitLimit: 1000 kB\nCommitted_AS: 500 kB\n")
    write(tmp_path, "/proc/sys/vm/overcommit_memory", "2")
    assert "overcommit" in problems(memory, make_context(tmp_path))[0].summary


def test_memory_in_unused_huge_pages(tmp_path):
    write_memory(tmp_path, 64, "HugePages_Total: 32768\nHugePages_Free: 32768\nHugepagesize: 2048 kB\n")
    assert "huge pages" in problems(memory, make_context(tmp_path))[0].summary


def test_memory_gives_its_facts_beside_a_fault(tmp_path):
    write_memory(tmp_path, 8)
    (found,) = problems(memory, make_context(tmp_path, TP4))
    assert dict(found.facts)["host.memory"] == str(128 * GIB)


def test_memory_without_proc_is_unknown(tmp_path):
    assert statuses(memory, make_context(tmp_path)) == ["unknown"]


def see_shm(root, command=TP4, **fields):
    return make_context(root, command, observed={"paths": make_path("/dev/shm", **fields)})


def test_shared_memory_of_docker_with_four_ranks(tmp_path):
    (found,) = problems(shared_memory, see_shm(tmp_path, free=64 << 20, total=64 << 20))
    assert found.severity == "error"
    assert "--shm-size" in found.fixes[0]


def test_shared_memory_of_docker_with_one_rank_is_fine(tmp_path):
    context = see_shm(tmp_path, "sglang serve --model-path /m", free=64 << 20, total=64 << 20)
    assert statuses(shared_memory, context) == ["ok"]


def test_shared_memory_that_does_not_exist(tmp_path):
    assert "does not exist" in problems(shared_memory, see_shm(tmp_path, exists=False))[0].summary


def test_shared_memory_that_is_not_writable(tmp_path):
    assert "not writable" in problems(shared_memory, see_shm(tmp_path, writable=False))[0].summary


LIMITS = {
    "nofile": 1048576,
    "nofile hard": 1048576,
    "memlock": -1,
    "memlock hard": -1,
    "nproc": -1,
    "nproc hard": -1,
    "as": -1,
    "as hard": -1,
}


def judge(root, command=TP4, **changes):
    found = {**LIMITS, **{name.replace("_", " "): value for name, value in changes.items()}}
    return [result for result in limits.judge(found, make_context(root, command)) if result.status == "problem"]


def test_limits_that_are_high(tmp_path):
    assert judge(tmp_path) == []


def test_limits_of_this_process_are_read(tmp_path):
    assert run(limits, make_context(tmp_path))


@pytest.mark.parametrize(
    ("changes", "severity"),
    [
        ({"nofile": 64, "nofile_hard": 64}, "error"),
        ({"nofile": 256}, "warning"),
        ({"nproc": 512}, "warning"),
        ({"as": 64 * GIB}, "error"),
    ],
)
def test_limits_that_are_low(tmp_path, changes, severity):
    assert [found.severity for found in judge(tmp_path, **changes)] == [severity]


@pytest.mark.parametrize(
    ("flags", "count"),
    [
        ("", 0),
        ("--cpu-offload-gb 8", 0),
        ("--enable-hierarchical-cache", 0),
        ("--enable-hierarchical-cache --hicache-storage-backend file", 0),
        ("--enable-hierarchical-cache --hicache-storage-backend mooncake", 1),
        ("--disaggregation-mode decode --disaggregation-ib-device mlx5_0", 1),
    ],
)
def test_locked_memory_counts_with_network_cards_only(tmp_path, flags, count):
    assert len(judge(tmp_path, f"{TP4} {flags}", memlock=65536)) == count


def write_nodes(root, memory_nodes, extra=""):
    for number in range(2):
        write(root, f"/sys/devices/system/node/node{number}/cpulist", "0-7")
    write(root, "/proc/self/status", f"Cpus_allowed_list:\t0-15\nMems_allowed_list:\t{memory_nodes}\n{extra}")


def see_numa(root, answer, command=TP4, version="0.5.10"):
    write_nodes(root, "0")
    write_program(root / "numactl", f"#!/bin/sh\n{answer}\n")
    return make_context(root, command, {"PATH": str(root)}, version=version)


REFUSE = "echo 'set_mempolicy: Operation not permitted' >&2; exit 1"


def test_numa_binding_that_is_refused(tmp_path):
    context = see_numa(tmp_path, REFUSE)
    (found,) = problems(numa, context)
    assert found.severity == "error"
    assert "Operation not permitted" in found.evidence[0]
    assert correct_command(context.launch, [found]).startswith("SGLANG_NUMA_BIND_V2=0 ")


def test_numa_binding_that_works(tmp_path):
    assert problems(numa, see_numa(tmp_path, "exit 0")) == []


def test_numa_binding_that_sglang_tries_itself_is_a_note(tmp_path):
    assert [found.severity for found in problems(numa, see_numa(tmp_path, REFUSE, version="0.5.15.post1"))] == ["info"]


def test_numa_binding_that_is_off(tmp_path):
    assert problems(numa, see_numa(tmp_path, REFUSE, f"SGLANG_NUMA_BIND_V2=0 {TP4}")) == []


def test_numa_binding_without_numactl(tmp_path):
    write_nodes(tmp_path, "0")
    assert problems(numa, make_context(tmp_path, TP4, {"PATH": "/nonexistent"}, version="0.5.10")) == []


def test_numa_binding_of_a_version_that_has_none(tmp_path):
    command = TP4.replace("sglang serve", "python3 -m sglang.launch_server")
    assert problems(numa, see_numa(tmp_path, REFUSE, command, "0.5.2")) == []


def test_fewer_cpus_than_ranks(tmp_path):
    write_nodes(tmp_path, "0-1")
    write(tmp_path, "/sys/fs/cgroup/cpu.max", "200000 100000")
    assert "2 CPU(s) for 4 rank(s)" in problems(numa, make_context(tmp_path, TP4))[0].summary


def test_nodes_that_cannot_be_counted_are_not_called_one(tmp_path):
    assert statuses(numa, make_context(tmp_path, TP4)) == ["unknown"]


@given(st.text(alphabet="0123456789-, x", max_size=30))
def test_lists_of_numbers_are_counted_or_refused(text):
    count = numa.count_list(text)
    is_list = re.fullmatch(r" *\d{1,9}(-\d{1,9})? *(, *\d{1,9}(-\d{1,9})? *)*", text) is not None
    is_falling = any(int(first) > int(last) for first, last in re.findall(r"(\d+)-(\d+)", text))
    assert (count is None) == (not is_list or is_falling)
    assert count is None or count > 0


@given(st.lists(st.tuples(st.integers(0, 999), st.integers(0, 99)), min_size=1, max_size=5))
def test_lists_of_numbers_are_counted_right(spans):
    text = ",".join(f"{first}-{first + more}" if more else str(first) for first, more in spans)
    assert numa.count_list(text) == sum(more + 1 for _, more in spans)


def test_pressure_now(tmp_path):
    write(
        tmp_path,
        "/proc/pressure/memory",
        "some avg10=40.00 avg60=1 avg300=0 total=1\nfull avg10=35.50 avg60=1 total=2\n",
    )
    assert "36 %" in problems(pressure, make_context(tmp_path))[0].summary


@pytest.mark.parametrize("name", ["earlyoom", "systemd-oomd"])
@pytest.mark.parametrize(("flags", "severity"), [("", "info"), ("--cpu-offload-gb 40", "warning")])
def test_guard_that_kills_early(tmp_path, name, flags, severity):
    write(tmp_path, "/proc/55/comm", name[:15] + "\n")
    (found,) = problems(pressure, make_context(tmp_path, f"{TP4} {flags}"))
    assert (name in found.summary, found.severity) == (True, severity)


def test_oom_kill_in_the_kernel_log(tmp_path):
    write(tmp_path, "/proc/uptime", "7200.5 1.0\n")
    log = "[ 3600.123456] Out of memory: Killed process 712 (sglang::schedul) total-vm:1kB, anon-rss:2kB\n"
    (found,) = problems(oom_kills, make_context(tmp_path, observed={"kernel": log}))
    assert "killed sglang::schedul (pid 712) for lack of memory 60 minutes ago" in found.summary


@pytest.mark.parametrize(
    ("line", "severity"),
    [
        ("[ 3600.1] Out of memory: Killed process 7 (chrome)", "warning"),
        ("[ 3600.1] Memory cgroup out of memory: Killed process 7 (sglang::schedul)", "warning"),
        ("[ 3600.1] Memory cgroup out of memory: Killed process 7 (postgres)", "info"),
        ("[ 12.1] Out of memory: Killed process 7 (sglang::schedul)", "info"),
        ("Out of memory: Killed process 7 (sglang::schedul)", "warning"),
    ],
)
def test_oom_kill_of_others_or_long_ago_is_a_note(tmp_path, line, severity):
    write(tmp_path, "/proc/uptime", "89000.5 1.0\n")
    (found,) = problems(oom_kills, make_context(tmp_path, observed={"kernel": line}))
    assert found.severity == severity


@pytest.mark.parametrize(("path", "severity"), [("/sys/fs/cgroup/memory.events", "warning"), ("/proc/vmstat", "info")])
def test_oom_kill_counted_when_the_log_is_closed(tmp_path, path, severity):
    write(tmp_path, path, "low 0\noom 2\noom_kill 2\n")
    (found,) = problems(oom_kills, make_context(tmp_path, observed={"kernel": Answer(None, "Operation not permitted")}))
    assert found.summary.startswith("2 process(es)")
    assert found.severity == severity


def test_closed_kernel_log_is_said(tmp_path):
    (found,) = run(oom_kills, make_context(tmp_path, observed={"kernel": Answer(None, "Operation not permitted")}))
    assert (found.status, "Operation not permitted" in found.reason) == ("unknown", True)

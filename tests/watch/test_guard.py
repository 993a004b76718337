"""The host guard: its arithmetic, its readers for both cgroup versions, and a real process that fills a real limit."""

import os
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from doctor.memory.units import GIB, MIB
from doctor.watch.forecast import Forecast, Step, count_layers, predict, read_layer_count
from doctor.watch.guard import Guard
from doctor.watch.host import (
    Memory,
    count_kills,
    find_cgroup,
    find_pause,
    find_reserve,
    must_act,
    read_memory,
)
from tests.watch.conftest import FAKE


def sample(time, available, pressure=0.0, total=64 * GIB):
    return Memory(time, int(available), total, "machine", pressure)


def test_reserve_is_a_share_with_bounds():
    assert find_reserve(64 * GIB) == int(64 * GIB * 0.04)
    assert find_reserve(2048 * GIB) == 4 * GIB
    assert find_reserve(4 * GIB) == 256 * MIB
    assert find_reserve(600 * MIB) == 60 * MIB


def test_must_act_below_the_reserve():
    assert "reserve" in must_act([sample(0, GIB)], 2 * GIB)


def test_must_act_stays_quiet_above_it():
    assert must_act([sample(0, 10 * GIB), sample(1, 9 * GIB)], 2 * GIB) == ""


def test_must_act_before_a_steep_slope_reaches_the_reserve():
    assert "every second" in must_act([sample(0, 9 * GIB), sample(1, 4 * GIB)], 2 * GIB)


def test_must_act_stays_quiet_on_a_steep_slope_far_away():
    assert must_act([sample(0, 50 * GIB), sample(1, 40 * GIB)], 2 * GIB) == ""


def test_must_act_under_pressure_near_the_reserve():
    assert "wait for memory" in must_act([sample(0, 3 * GIB, 60.0)], 2 * GIB)


def test_must_act_ignores_pressure_with_memory_left():
    assert must_act([sample(0, 30 * GIB, 90.0)], 2 * GIB) == ""


@given(st.lists(st.integers(0, 64 * GIB), min_size=1, max_size=20))
def test_pause_is_always_bounded(values):
    samples = [sample(number / 10, value) for number, value in enumerate(values)]
    assert 0.05 <= find_pause(samples, 2 * GIB) <= 0.5


def write(root, path, text):
    target = root / path
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(text)


def make_root(tmp_path, cgroup):
    write(tmp_path, "proc/meminfo", "MemTotal: 67108864 kB\nMemAvailable: 33554432 kB\n")
    write(tmp_path, "proc/self/cgroup", cgroup)
    return str(tmp_path)


def test_cgroup_v2_limit_wins(tmp_path):
    root = make_root(tmp_path, "0::/a/b\n")
    write(tmp_path, "sys/fs/cgroup/cgroup.controllers", "memory\n")
    write(tmp_path, "sys/fs/cgroup/a/b/memory.max", "max\n")
    write(tmp_path, "sys/fs/cgroup/a/b/memory.current", "100\n")
    write(tmp_path, "sys/fs/cgroup/a/memory.max", f"{9 * GIB}\n")
    write(tmp_path, "sys/fs/cgroup/a/memory.current", f"{8 * GIB}\n")
    write(tmp_path, "sys/fs/cgroup/a/memory.stat", f"inactive_file {GIB // 2}\n")
    write(tmp_path, "sys/fs/cgroup/a/b/memory.events", "low 0\noom_kill 3\n")
    cgroup = find_cgroup(root=root)
    memory = read_memory(0.0, cgroup, root)
    assert (memory.available, memory.limit) == (GIB + GIB // 2, "memory cgroup v2")
    assert count_kills(cgroup) == 3


def test_cgroup_v1_limit_wins(tmp_path):
    root = make_root(tmp_path, "5:cpu:/x\n4:memory:/box\n0::/\n")
    write(tmp_path, "sys/fs/cgroup/memory/box/memory.limit_in_bytes", f"{2 * GIB}\n")
    write(tmp_path, "sys/fs/cgroup/memory/box/memory.usage_in_bytes", f"{GIB}\n")
    write(tmp_path, "sys/fs/cgroup/memory/box/memory.stat", "inactive_file 5\ntotal_inactive_file 1048576\n")
    write(tmp_path, "sys/fs/cgroup/memory/box/memory.oom_control", "oom_kill_disable 0\noom_kill 1\n")
    cgroup = find_cgroup(root=root)
    assert read_memory(0.0, cgroup, root).available == GIB + MIB
    assert count_kills(cgroup) == 1


def test_cgroup_of_a_container_is_mounted_at_the_top(tmp_path):
    root = make_root(tmp_path, "0::/kubepods/pod1/x\n")
    write(tmp_path, "sys/fs/cgroup/cgroup.controllers", "memory\n")
    write(tmp_path, "sys/fs/cgroup/memory.max", f"{GIB}\n")
    write(tmp_path, "sys/fs/cgroup/memory.current", "0\n")
    assert read_memory(0.0, find_cgroup(root=root), root).total == GIB


def test_machine_counts_without_a_limit(tmp_path):
    root = make_root(tmp_path, "4:memory:/\n")
    write(tmp_path, "sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n")
    write(tmp_path, "sys/fs/cgroup/memory/memory.usage_in_bytes", "5\n")
    assert read_memory(0.0, find_cgroup(root=root), root).limit == "machine"


def test_machine_counts_without_any_cgroup(tmp_path):
    root = make_root(tmp_path, "")
    assert read_memory(0.0, find_cgroup(root=root), root).available == 32 * GIB
    assert count_kills(find_cgroup(root=root)) is None


def test_forecast_names_the_layer_where_it_stops():
    steps = [Step(layer, int((71 - 1.7 * (layer + 1)) * GIB)) for layer in range(10)]
    found = predict(steps, 48, 0)
    assert found.words == "the offload needs 82 GiB, 71 available: stops at layer 41 of 48"


def test_forecast_is_content_when_it_fits():
    steps = [Step(layer, (71 - layer) * GIB) for layer in range(10)]
    assert predict(steps, 48, 2 * GIB).stops_at is None


def test_forecast_waits_for_three_layers():
    assert predict([Step(0, GIB), Step(1, 0)], 48, 0) is None


def test_forecast_says_nothing_of_memory_that_does_not_shrink():
    assert predict([Step(layer, GIB) for layer in range(5)], 48, 0) is None


@pytest.mark.parametrize(("available", "told"), [(20.0, False), (4.6, False), (4.4, True), (1.0, True)])
def test_forecast_tells_the_end_a_layer_early(available, told):
    forecast = Forecast(int(1.5 * GIB), 11, int(16.5 * GIB), 10 * GIB, 6)
    assert bool(forecast.tell_end(int(available * GIB), int(1.5 * GIB), 4)) is told


def test_forecast_tells_no_end_of_an_offload_that_fits():
    assert Forecast(GIB, 11, 11 * GIB, 20 * GIB, None).tell_end(0, GIB, 10) == ""


def test_guard_that_is_off_halts_nothing():
    halted = []
    Guard(0, halted.append).act("a layer too many")
    assert halted == []


def test_guard_halts_once():
    halted = []
    guard = Guard(GIB, halted.append)
    guard.act("a layer too many")
    guard.act("and another")
    assert halted == ["a layer too many"]


def test_layers_of_a_group_are_counted():
    assert count_layers({"offload_group_size": 4, "offload_num_in_group": 2}, 48) == 24
    assert count_layers({"offload_group_size": -1}, 48) == 0
    assert count_layers({"cpu_offload_gb": 10}, 48) == 0


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"num_hidden_layers": "x"}', '{"num_hidden_layers": 99999999}', "\xff"]
)
def test_layer_count_of_a_broken_config_is_unknown(tmp_path, text):
    (tmp_path / "config.json").write_text(text)
    assert read_layer_count(str(tmp_path)) == 0


def test_layer_count_is_read(tmp_path):
    (tmp_path / "config.json").write_text('{"num_hidden_layers": 48}')
    assert read_layer_count(str(tmp_path)) == 48


LIMIT = 700 * MIB


@pytest.fixture
def limited():
    """A real memory cgroup (v1) of its own, where this user may make one."""
    folder = Path(f"/sys/fs/cgroup/memory/doctor-test-{os.getpid()}")
    try:
        folder.mkdir()
        (folder / "memory.limit_in_bytes").write_text(str(LIMIT))
    except OSError:
        pytest.skip("no memory cgroup can be made here")
    yield folder
    folder.rmdir()


def test_guard_acts_before_the_kernel_does(doctor, limited):
    words = f"echo $$ > {limited}/cgroup.procs; exec {sys.executable} -m doctor run --no-check --restart never"
    words += f" --evidence {doctor.folder}/evidence -- {sys.executable} {FAKE} --model-path tiny --act eat-memory"
    doctor.start("sh", "-c", words, options=("--restart", "never", "--host-reserve", "0"))
    assert doctor.end(60) != 0
    assert "WATCH009" in doctor.said
    assert "offloaded layers" in doctor.said
    assert "oom_kill 0" in (limited / "memory.oom_control").read_text()


def test_kernel_kills_where_the_guard_is_off(doctor, limited):
    words = f"echo $$ > {limited}/cgroup.procs; exec {sys.executable} {FAKE} --model-path tiny --act eat-memory"
    doctor.start("sh", "-c", words, options=("--restart", "never", "--host-reserve", "0"))
    assert doctor.end(60) == 137
    assert "HOST002" in doctor.said
    assert "oom_kill 1" in (limited / "memory.oom_control").read_text()

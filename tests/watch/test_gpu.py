"""GPU samples: who holds what, and what the last server has not given back."""

import json
import os
import subprocess
import sys
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from doctor.memory.units import GIB
from doctor.watch.gpu import _PROGRAM, Gpu, GpuSample, GpuWatch, describe, read_sample

OWN, OTHER, LATER = 10, 20, 30


def make_sample(*gpus):
    return GpuSample(time.monotonic(), gpus)


def make_gpu(used, **holders):
    return Gpu(int(used * GIB), 140 * GIB, {int(name[1:]): int(size * GIB) for name, size in holders.items()})


def watch(*samples, own=(OWN,)):
    """A watch that saw these samples of a server with its processes, the first one before it opened the GPU."""
    made = GpuWatch("/no/such/device")
    made.mark()
    for sample in samples:
        made.keep(sample)
        made.note(own)
    return made


def test_memory_of_a_dead_server_is_held():
    made = watch(make_sample(make_gpu(1)), make_sample(make_gpu(41, p10=40)), make_sample(make_gpu(41)))
    assert made.describe_held() == "40.0 GiB of GPU memory are still held"


def test_memory_of_a_dying_process_is_held():
    made = watch(make_sample(make_gpu(1)), make_sample(make_gpu(41, p10=40)))
    assert made.describe_held().startswith("40.0 GiB")


def test_memory_given_back_is_not_held():
    assert (
        watch(make_sample(make_gpu(1)), make_sample(make_gpu(41, p10=40)), make_sample(make_gpu(1.5))).describe_held()
        == ""
    )


def test_memory_of_a_later_program_is_not_the_servers():
    made = watch(make_sample(make_gpu(1)), make_sample(make_gpu(41, p10=40)), make_sample(make_gpu(31, p30=30)))
    assert made.describe_held() == ""


def test_memory_of_an_earlier_program_that_grew_is_not_the_servers():
    before, after = make_sample(make_gpu(6, p20=5)), make_sample(make_gpu(26, p20=25))
    assert watch(before, make_sample(make_gpu(46, p10=40, p20=5)), after).describe_held() == ""


def test_memory_beside_an_earlier_program_that_ended_is_held():
    made = watch(
        make_sample(make_gpu(21, p20=20)), make_sample(make_gpu(61, p10=40, p20=20)), make_sample(make_gpu(41))
    )
    assert made.describe_held().startswith("40.0 GiB")


def test_memory_counts_as_ours_where_nvml_names_nobody_we_know():
    made = watch(make_sample(make_gpu(1)), make_sample(make_gpu(41, p4711=40)), make_sample(make_gpu(41, p4711=40)))
    assert made.describe_held().startswith("40.0 GiB")


def test_nothing_is_held_without_a_sample():
    assert watch().describe_held() == ""
    assert watch().measure() == (0, 0)


def test_old_sample_says_nothing():
    old = GpuSample(time.monotonic() - 60, (make_gpu(41),))
    assert watch(make_sample(make_gpu(1)), old).describe_held() == ""


def test_next_server_is_measured_anew():
    made = watch(make_sample(make_gpu(1)), make_sample(make_gpu(41, p10=40)))
    made.mark()
    assert made.describe_held() == ""


def test_only_gpus_of_the_server_are_measured():
    made = watch(make_sample(make_gpu(5, p10=5), make_gpu(70, p20=70)))
    assert made.measure() == (5 * GIB, 140 * GIB)


def test_all_gpus_are_measured_where_no_holder_is_known():
    assert watch(make_sample(make_gpu(5), make_gpu(70))).measure() == (75 * GIB, 280 * GIB)


def test_description_names_load_and_holders():
    sample = make_sample(make_gpu(5, p10=4)._replace(busy=100, watts=120), Gpu(0, GIB, error="Unknown Error"))
    assert list(describe(sample)) == [
        "GPU 0: 5.00 of 140.00 GiB in use, 100 % busy, 120 W, pid 10: 4.00 GiB",
        "GPU 1: 0.00 of 1.00 GiB in use, Unknown Error",
    ]


@pytest.mark.parametrize("line", [b"", b"{", b"[1]", b"[{}]", b'[{"used": "x", "total": 1}]', b"null", b"\xff"])
def test_broken_line_is_no_sample(line):
    assert read_sample(line, 0.0) is None


@given(st.binary(max_size=200))
def test_no_line_raises(line):
    assert read_sample(line, 0.0) is None or line.strip()


def test_child_prints_what_is_read(tmp_path):
    """The child's program over a library of our own that answers like NVML on one GPU."""
    (tmp_path / "pynvml.py").write_text(
        "from types import SimpleNamespace as N\n"
        "class NVMLError(Exception): pass\n"
        "nvmlInit = lambda: None\n"
        "nvmlDeviceGetCount = lambda: 1\n"
        "nvmlDeviceGetHandleByIndex = lambda n: n\n"
        "nvmlDeviceGetMemoryInfo = lambda h: N(used=3, total=9)\n"
        "nvmlDeviceGetUtilizationRates = lambda h: N(gpu=100)\n"
        "nvmlDeviceGetPowerUsage = lambda h: 120500\n"
        "nvmlDeviceGetComputeRunningProcesses = lambda h: [N(pid=7, usedGpuMemory=2), N(pid=8, usedGpuMemory=None)]\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    with subprocess.Popen([sys.executable, "-c", _PROGRAM], stdout=subprocess.PIPE, env=environment) as child:
        line = child.stdout.readline()
        child.kill()
    assert json.loads(line)
    assert read_sample(line, 1.0) == GpuSample(1.0, (Gpu(3, 9, {7: 2, 8: 0}, 100, 120),))

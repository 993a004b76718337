"""Who holds GPU memory, and whether the ranks find the same."""

import pytest

from doctor.probes import (
    gpu_processes,
)
from tests.probes.helpers import (
    GIB,
    TP2,
    make_device,
    make_gpus,
    problems,
    see_gpus,
    statuses,
    write,
)


def test_gpu_held_by_a_visible_process(tmp_path):
    write(tmp_path, "/proc/4242/cmdline", "python\0train.py\0")
    gpus = make_gpus(make_device(free=13 * GIB, processes=[[4242, 125 * GIB]]))
    (found,) = problems(gpu_processes, see_gpus(tmp_path, gpus, "sglang serve --model-path /m"))
    assert found.severity == "error"
    assert any("python train.py" in line for line in found.evidence)
    assert found.fixes[0].startswith("kill 4242")


def test_gpu_held_by_a_zombie(tmp_path):
    write(tmp_path, "/proc/4242/stat", "4242 (sglang::schedul) Z 900 1 1")
    write(tmp_path, "/proc/4242/cmdline", "")
    gpus = make_gpus(make_device(free=13 * GIB, processes=[[4242, 125 * GIB]]))
    (found,) = problems(gpu_processes, see_gpus(tmp_path, gpus))
    assert found.fixes[0].startswith("kill 900")


def test_gpu_held_by_a_process_of_another_container(tmp_path):
    gpus = make_gpus(make_device(free=120 * GIB, processes=[[99, 0]]))
    (found,) = problems(gpu_processes, see_gpus(tmp_path, gpus))
    assert found.severity == "warning"
    assert "fuser" in found.fixes[0]


def test_gpu_with_the_driver_s_own_share_is_free(tmp_path):
    assert statuses(gpu_processes, see_gpus(tmp_path, make_gpus(make_device(free=140 * GIB - 700 * 2**20)))) == ["ok"]


def test_gpu_that_the_launch_does_not_use_may_be_busy(tmp_path):
    gpus = make_gpus(make_device(), make_device(1, free=GIB))
    assert statuses(gpu_processes, see_gpus(tmp_path, gpus, "sglang serve --model-path /m")) == ["ok"]


def test_gpu_slice_is_not_called_free(tmp_path):
    gpus = make_gpus(make_device(mig=[1, 1], mig_devices=["MIG-abcd"]))
    context = see_gpus(tmp_path, gpus, "sglang serve --model-path /m", environment={"CUDA_VISIBLE_DEVICES": "MIG-abcd"})
    assert statuses(gpu_processes, context) == ["unknown"]


UNEQUAL = make_gpus(make_device(), make_device(1, free=100 * GIB))


def says_unequal(root, command="", **fields):
    return any("10 %" in found.summary for found in problems(gpu_processes, see_gpus(root, UNEQUAL, command, **fields)))


def test_gpus_with_unequal_free_memory(tmp_path):
    assert says_unequal(tmp_path, TP2)


@pytest.mark.parametrize("command", ["", "sglang serve --model-path /m --dp-size 2"])
def test_gpus_with_unequal_free_memory_that_no_tensor_parallel_launch_takes(tmp_path, command):
    assert not says_unequal(tmp_path, command)


@pytest.mark.parametrize(
    "setting", ["SGLANG_ENABLE_TP_MEMORY_INBALANCE_CHECK=false", "SGL_DISABLE_TP_MEMORY_INBALANCE_CHECK=1"]
)
def test_gpus_with_unequal_free_memory_that_sglang_is_told_to_accept(tmp_path, setting):
    assert not says_unequal(tmp_path, f"{setting} {TP2}")


def test_gpu_that_draws_a_desktop_is_a_note(tmp_path):
    write(tmp_path, "/proc/900/cmdline", "/usr/lib/xorg/Xorg\0")
    gpus = make_gpus(make_device(total=24 * GIB, free=22 * GIB + GIB // 2, processes=[[900, GIB]]))
    (found,) = problems(gpu_processes, see_gpus(tmp_path, gpus, "sglang serve --model-path /m"))
    assert (found.severity, found.fixes) == ("info", ())


def test_gpu_held_under_wsl_is_held_by_windows(tmp_path):
    write(tmp_path, "/proc/version", "Linux version 6.6 (microsoft-standard-WSL2)")
    (found,) = problems(gpu_processes, see_gpus(tmp_path, make_gpus(make_device(free=100 * GIB, processes=None))))
    assert "Task Manager" in found.fixes[0]

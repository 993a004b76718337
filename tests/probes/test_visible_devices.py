"""CUDA_VISIBLE_DEVICES and its relatives."""

import pytest

from doctor.probes import (
    visible_devices,
)
from doctor.probes.base.edits import correct_command
from tests.probes.helpers import (
    NO_NVML,
    TP2,
    make_device,
    make_gpus,
    problems,
    see_gpus,
    statuses,
    write,
)

TWO = make_gpus(make_device(), make_device(1))


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("", "hides every GPU"),
        ("4,5,6,7", "which is not here: no GPU is seen"),
        ("0,7", "only 0 are seen"),
        ("0,0", "twice"),
        ("-1", "names -1"),
        (",0", "begins with a comma: it hides every GPU"),
        ("GPU-9999", "GPU-9999"),
    ],
)
def test_visible_devices_that_are_wrong(tmp_path, value, words):
    context = see_gpus(tmp_path, TWO, TP2, environment={"CUDA_VISIBLE_DEVICES": value})
    found = problems(visible_devices, context)
    assert any(words in problem.summary for problem in found)
    corrected = correct_command(context.launch, found)
    assert corrected is not None
    assert corrected.startswith("CUDA_VISIBLE_DEVICES=0,1 ")


@pytest.mark.parametrize("value", ["0,1", "1,0", "GPU-00000000,GPU-00001000", None])
def test_visible_devices_that_are_right(tmp_path, value):
    environment = {"CUDA_VISIBLE_DEVICES": value} if value else {}
    assert statuses(visible_devices, see_gpus(tmp_path, TWO, TP2, environment=environment)) == ["ok"]


def test_visible_devices_with_blanks_is_a_warning(tmp_path):
    context = see_gpus(tmp_path, TWO, f"CUDA_VISIBLE_DEVICES='0, 1' {TP2}")
    (found,) = problems(visible_devices, context)
    assert found.severity == "warning"
    assert "CUDA_VISIBLE_DEVICES=0,1" in correct_command(context.launch, [found]).replace("'", "")


@pytest.mark.parametrize(
    ("value", "good"),
    [("MIG-abcd", True), ("MIG-GPU-00000000-1111/1/0", True), ("MIG-bcde", False), ("MIG-GPU-9999/1/0", False)],
)
def test_visible_devices_of_a_mig_slice(tmp_path, value, good):
    gpus = make_gpus(make_device(mig=[1, 1], mig_devices=["MIG-abcd"]))
    context = see_gpus(tmp_path, gpus, "sglang serve --model-path /m", environment={"CUDA_VISIBLE_DEVICES": value})
    assert (problems(visible_devices, context) == []) is good


def test_visible_devices_fewer_than_tp(tmp_path):
    context = see_gpus(tmp_path, TWO, TP2, environment={"CUDA_VISIBLE_DEVICES": "1"})
    (found,) = problems(visible_devices, context)
    assert "needs 2 GPUs and sees 1" in found.summary
    assert found.fixes == ("export CUDA_VISIBLE_DEVICES=0,1",)


def test_tp_above_the_gpus_of_the_machine(tmp_path):
    context = see_gpus(tmp_path, TWO, "sglang serve --model-path /m --tp 8")
    (found,) = problems(visible_devices, context)
    assert correct_command(context.launch, [found]) == "sglang serve --model-path /m --tp 2"


def test_tp_times_dp_above_the_gpus(tmp_path):
    context = see_gpus(tmp_path, TWO, "sglang serve --model-path /m --tp 2 --dp-size 2")
    (found,) = problems(visible_devices, context)
    assert "needs 4" in found.summary
    assert found.fixes == ("--tp-size 1",)


def test_tp_above_the_gpus_but_over_two_nodes(tmp_path):
    command = "sglang serve --model-path /m --tp 4 --nnodes 2 --node-rank 0 --dist-init-addr a:1"
    assert statuses(visible_devices, see_gpus(tmp_path, TWO, command)) == ["ok"]


def test_visible_devices_named_as_the_image_s(tmp_path):
    write(tmp_path, "/proc/1/environ", "PATH=/bin\0CUDA_VISIBLE_DEVICES=9\0")
    context = see_gpus(tmp_path, TWO, environment={"CUDA_VISIBLE_DEVICES": "9"})
    assert any("image" in line for line in problems(visible_devices, context)[0].evidence)


def test_nvidia_visible_devices_void(tmp_path):
    context = see_gpus(tmp_path, NO_NVML, environment={"NVIDIA_VISIBLE_DEVICES": "void"})
    assert "NVIDIA_VISIBLE_DEVICES" in problems(visible_devices, context)[0].summary


def test_nvidia_visible_devices_void_beside_gpus_handed_in_by_cdi(tmp_path):
    context = see_gpus(tmp_path, TWO, environment={"NVIDIA_VISIBLE_DEVICES": "void"})
    assert statuses(visible_devices, context) == ["ok"]


@pytest.mark.parametrize(("command", "severity"), [("sglang serve --model-path /m", "warning"), (TP2, "error")])
def test_visible_devices_beyond_those_that_are_needed_is_a_warning(tmp_path, command, severity):
    context = see_gpus(tmp_path, TWO, command, environment={"CUDA_VISIBLE_DEVICES": "0,7"})
    assert problems(visible_devices, context)[0].severity == severity


def test_visible_devices_of_two_kinds_are_numbered_by_speed(tmp_path):
    gpus = make_gpus(make_device(), make_device(1, name="NVIDIA L4"))
    for value, count in (("0,1", 1), ("GPU-00000000,GPU-00001000", 0)):
        context = see_gpus(tmp_path, gpus, TP2, environment={"CUDA_VISIBLE_DEVICES": value})
        assert len(problems(visible_devices, context)) == count

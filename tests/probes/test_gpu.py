"""Probes of the GPU group, over what NVML would say and a folder in place of /."""

import os

import pytest

from doctor.probes import (
    accelerator,
    architectures,
    device_nodes,
    devices,
    driver,
    xid,
)
from doctor.probes.base.context import Answer
from tests.probes.helpers import (
    NO_NVML,
    TP2,
    make_device,
    make_gpus,
    make_package,
    make_python,
    make_sglang,
    make_torch,
    problems,
    run,
    see_gpus,
    statuses,
    write,
)


def test_accelerator_with_nvml(tmp_path):
    assert statuses(accelerator, see_gpus(tmp_path, make_gpus())) == ["ok"]


def test_accelerator_missing_is_an_error_for_a_launch(tmp_path):
    (found,) = problems(accelerator, see_gpus(tmp_path, NO_NVML, "sglang serve --model-path /m"))
    assert found.severity == "error"
    assert "--device cpu" in found.fixes[0]


def test_accelerator_missing_is_no_matter_on_the_cpu(tmp_path):
    assert statuses(accelerator, see_gpus(tmp_path, NO_NVML, "sglang serve --model-path /m --device cpu")) == [
        "not-applicable"
    ]


@pytest.mark.parametrize(
    ("vendor", "extra", "words"),
    [
        ("0x10de", "", "driver does not work"),
        ("0x10de", ".dockerenv", "container was started without"),
        ("0x1002", "", "not /dev/kfd"),
        ("0x1002", "dev/kfd", "ROCm"),
        ("0x19e5", "dev/davinci0", "Ascend"),
    ],
)
def test_accelerator_by_vendor(tmp_path, vendor, extra, words):
    write(tmp_path, "/sys/bus/pci/devices/0000:01/class", "0x030200\n")
    write(tmp_path, "/sys/bus/pci/devices/0000:01/vendor", f"{vendor}\n")
    if extra:
        write(tmp_path, extra, "")
    (found,) = run(accelerator, see_gpus(tmp_path, NO_NVML))
    assert words in found.summary


def test_accelerator_under_wsl_without_the_library(tmp_path):
    write(tmp_path, "/proc/version", "Linux version 5.15 (Microsoft@Microsoft.com)")
    (found,) = problems(accelerator, see_gpus(tmp_path, NO_NVML))
    assert "WSL" in found.summary


def test_accelerator_that_hangs_where_nothing_else_tells_of_it(tmp_path):
    hangs = Answer(None, "NVML: python gave no answer within 7 s; nvidia-smi: not on PATH")
    (found,) = problems(accelerator, see_gpus(tmp_path, hangs, "sglang serve --model-path /m"))
    assert "does not answer" in found.summary


def test_accelerator_with_a_wedged_driver(tmp_path):
    write(tmp_path, "/proc/driver/nvidia/version", "NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.65.06")
    (found,) = problems(accelerator, see_gpus(tmp_path, Answer(None, "NVML: python gave no answer within 7 s")))
    assert "does not answer" in found.summary


@pytest.mark.parametrize(
    ("version", "cuda", "severity"),
    [("580.65.06", "13.0", None), ("575.57", "13.0", "error"), ("535.54", "12.8", None), ("520.61", "12.4", "error")],
)
def test_driver_against_torch(tmp_path, version, cuda, severity):
    python = make_python(make_torch(f"2.11.0+cu{cuda.replace('.', '')}", cuda))
    found = problems(driver, see_gpus(tmp_path, make_gpus(driver=version), observed={"python": python}))
    assert [problem.severity for problem in found] == ([severity] if severity else [])


def test_driver_with_forward_compatibility_is_a_warning(tmp_path):
    context = see_gpus(
        tmp_path,
        make_gpus(driver="570.1"),
        observed={"python": make_python(make_torch())},
        environment={"LD_LIBRARY_PATH": "/usr/local/cuda/compat"},
    )
    assert [problem.severity for problem in problems(driver, context)] == ["warning"]


def test_driver_that_is_old_and_starts_cuda_all_the_same(tmp_path):
    started = {"torch": {"version": "2.11.0+cu130"}, "cuda": {"count": 2, "built": True}}
    gpus = make_gpus(make_device(fabric=[1, 0]), driver="535.54")
    observed = {"python": make_python(make_torch()), "imports": started}
    assert statuses(driver, see_gpus(tmp_path, gpus, observed=observed)) == ["ok"]


def test_driver_that_is_old_on_a_geforce_gets_no_forward_compatibility(tmp_path):
    observed = {"python": make_python(make_torch())}
    for name, words in (("NVIDIA GeForce RTX 4090", False), ("NVIDIA H200", True)):
        (found,) = problems(
            driver, see_gpus(tmp_path, make_gpus(make_device(name=name), driver="570.1"), observed=observed)
        )
        assert any("cuda-compat" in fix for fix in found.fixes) is words


def test_driver_read_from_the_kernel_module_when_nvml_fails(tmp_path):
    write(tmp_path, "/proc/driver/nvidia/version", "NVRM version: NVIDIA UNIX x86_64 Kernel Module  470.57.02  Tue\n")
    context = see_gpus(tmp_path, NO_NVML, observed={"python": make_python(make_torch())})
    assert "too old" in problems(driver, context)[0].summary


def test_driver_with_a_fabric_that_is_not_ready(tmp_path):
    gpus = make_gpus(make_device(fabric=[2, 0]), make_device(1, fabric=[3, 0]))
    context = see_gpus(tmp_path, gpus, observed={"python": make_python(make_torch())})
    (found,) = problems(driver, context)
    assert "802" in found.summary


def test_devices_that_are_healthy(tmp_path):
    (found,) = run(
        devices, see_gpus(tmp_path, make_gpus(make_device(remapped=[0, 0, 0, 0], links=18, links_up=18, fabric=[3, 0])))
    )
    assert found.status == "ok"
    assert ("gpu.0.name", "NVIDIA H200") in found.facts


@pytest.mark.parametrize(
    ("fields", "words", "severity"),
    [
        ({"compute_mode": 2}, "PROHIBITED", "error"),
        ({"compute_mode": 3}, "EXCLUSIVE_PROCESS", "warning"),
        ({"ecc_errors": 4}, "uncorrectable", "error"),
        ({"remapped": [1, 1, 1, 0]}, "remap", "warning"),
        ({"remapped": [1, 1, 0, 1]}, "no spare", "error"),
        ({"retire_pending": 1}, "retire", "warning"),
        ({"recovery": 1}, "a reset", "error"),
        ({"mig": [1, 1], "mig_devices": ["MIG-a"]}, "MIG", "warning"),
        ({"links": 18, "links_up": 17}, "NVLink", "warning"),
        ({"persistence": 0}, "persistence", "info"),
    ],
)
def test_devices_with_a_fault(tmp_path, fields, words, severity):
    (found,) = problems(devices, see_gpus(tmp_path, make_gpus(make_device(**fields))))
    assert words in found.summary
    assert found.severity == severity


def test_devices_that_nvml_cannot_open(tmp_path):
    gpus = make_gpus(make_device())
    gpus["devices"].append({"index": 1, "error": "GPU is lost"})
    assert "cannot be opened" in problems(devices, see_gpus(tmp_path, gpus))[0].summary


def test_devices_of_two_kinds_in_one_launch(tmp_path):
    gpus = make_gpus(make_device(), make_device(1, name="NVIDIA L4"))
    assert "mix" in problems(devices, see_gpus(tmp_path, gpus, TP2))[0].summary
    assert problems(devices, see_gpus(tmp_path, gpus, TP2.replace("--tp 2", "--tp 1"))) == []


def test_devices_of_two_kinds_without_a_launch_are_no_fault(tmp_path):
    assert statuses(devices, see_gpus(tmp_path, make_gpus(make_device(), make_device(1, name="NVIDIA L4")))) == ["ok"]


@pytest.mark.parametrize("name", ["NVIDIA H200 NVL", "NVIDIA A100-PCIE-40GB", "NVIDIA GeForce RTX 3090"])
def test_devices_joined_by_a_bridge_have_idle_links(tmp_path, name):
    assert statuses(devices, see_gpus(tmp_path, make_gpus(make_device(name=name, links=18, links_up=12)))) == ["ok"]


def test_devices_give_their_facts_beside_a_fault(tmp_path):
    (found, *_) = run(devices, see_gpus(tmp_path, make_gpus(make_device(ecc_errors=4))))
    assert (found.status, found.facts[0]) == ("problem", ("gpu.0.name", "NVIDIA H200"))


def test_devices_without_an_answer_are_unknown(tmp_path):
    assert statuses(devices, see_gpus(tmp_path, Answer(None, "NVML: python gave no answer within 7 s"))) == ["unknown"]


def test_device_nodes_without_uvm(tmp_path):
    for name in ("nvidiactl", "nvidia0"):
        write(tmp_path, f"/dev/{name}", "")
    assert "nvidia-uvm" in problems(device_nodes, see_gpus(tmp_path, make_gpus()))[0].summary


def test_device_nodes_that_cannot_be_opened(tmp_path):
    (tmp_path / "dev").mkdir()
    os.symlink("/nonexistent", tmp_path / "dev/nvidia0")  # root may open anything that exists
    assert "may not open" in problems(device_nodes, see_gpus(tmp_path, make_gpus()))[0].summary


def test_device_nodes_of_the_processor_s_own_graphics_are_no_matter(tmp_path):
    for name in ("nvidiactl", "nvidia0", "nvidia-uvm", "kfd"):
        write(tmp_path, f"/dev/{name}", "")
    assert "3 device files" in run(device_nodes, see_gpus(tmp_path, make_gpus()))[0].summary


def test_device_nodes_that_are_complete(tmp_path):
    for name in ("nvidiactl", "nvidia0", "nvidia-uvm", "nvidia-caps/nvidia-cap1"):
        write(tmp_path, f"/dev/{name}", "")
    assert statuses(device_nodes, see_gpus(tmp_path, make_gpus())) == ["ok"]


def test_torch_of_unknown_build_is_not_called_a_cpu_build(tmp_path):
    python = make_python(make_package("torch", "2.11.0a0+git123", version_file={}))
    assert problems(architectures, see_gpus(tmp_path, make_gpus(), observed={"python": python})) == []


def test_cpu_torch_on_a_gpu_machine(tmp_path):
    python = make_python(make_torch("2.11.0+cpu", None))
    (found,) = problems(architectures, see_gpus(tmp_path, make_gpus(), observed={"python": python}))
    assert "CPU build" in found.summary
    assert "download.pytorch.org/whl/cu130" in found.fixes[0]


@pytest.mark.parametrize(
    ("capability", "built", "good"),
    [
        ([9, 0], ["sm_80", "sm_90"], True),
        ([8, 9], ["sm_80"], True),
        ([12, 0], ["sm_80", "sm_90"], False),
        ([12, 0], ["sm_90", "compute_90"], True),
        ([10, 3], ["sm_100"], True),
        ([8, 0], ["sm_86"], False),
    ],
)
def test_architectures(tmp_path, capability, built, good):
    observed = {
        "python": make_python(make_torch()),
        "imports": {"torch": {"version": "2.11.0+cu130"}, "architectures": {"architectures": built}},
    }
    context = see_gpus(tmp_path, make_gpus(make_device(capability=capability)), observed=observed)
    assert (problems(architectures, context) == []) is good


def test_architecture_older_than_sglang_supports(tmp_path):
    context = see_gpus(
        tmp_path, make_gpus(make_device(capability=[7, 0])), observed={"python": make_python(make_torch())}
    )
    assert "sm75" in problems(architectures, context)[0].summary


def test_architectures_when_torch_does_not_import(tmp_path):
    observed = {"python": make_python(make_torch(), make_sglang()), "imports": {"torch": {"error": "OSError: no"}}}
    (found,) = run(architectures, see_gpus(tmp_path, make_gpus(), observed=observed))
    assert (found.status, found.reason) == ("unknown", "OSError: no")


@pytest.mark.parametrize(("number", "severity"), [(79, "error"), (31, "warning")])
def test_xid(tmp_path, number, severity):
    line = f"[ 12.5] NVRM: Xid (PCI:0000:19:00): {number}, pid=77, GPU has fallen off"
    (found,) = problems(xid, see_gpus(tmp_path, make_gpus(), observed={"kernel": line}))
    assert found.severity == severity


@pytest.mark.parametrize(("number", "severity"), [(79, "warning"), (31, "info")])
def test_xid_of_last_week(tmp_path, number, severity):
    write(tmp_path, "/proc/uptime", "604800.5 1.0\n")
    line = f"[ 12.5] NVRM: Xid (PCI:0000:19:00): {number}, pid=77, GPU has fallen off"
    (found,) = problems(xid, see_gpus(tmp_path, make_gpus(), observed={"kernel": line}))
    assert (found.severity, "168 hours ago" in found.summary) == (severity, True)


def test_xid_of_a_gpu_that_nvml_no_longer_lists(tmp_path):
    write(tmp_path, "/proc/driver/nvidia/version", "NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.65.06")
    line = "[ 12.5] NVRM: Xid (PCI:0000:19:00): 79, pid=77, GPU has fallen off the bus."
    (found,) = problems(xid, see_gpus(tmp_path, Answer(None, "NVML: GPU is lost"), observed={"kernel": line}))
    assert found.severity == "error"


def test_xid_with_an_unreadable_log(tmp_path):
    observed = {"kernel": Answer(None, "it ended with code 1: dmesg: read kernel buffer failed")}
    assert statuses(xid, see_gpus(tmp_path, make_gpus(), observed=observed)) == ["unknown"]

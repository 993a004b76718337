"""The machine of a plan, with an NVML that answers, breaks and hangs."""

import pytest

from doctor.commands import machine

NVML = """
class Memory:
    def __init__(self, total): self.total, self.free = total, total - 1
KINDS = [("NVIDIA H200", 150 << 30, (9, 0)), (b"NVIDIA L4", 24 << 30, (8, 9))]
def nvmlInit(): pass
def nvmlDeviceGetCount(): return len(KINDS)
def nvmlDeviceGetHandleByIndex(index): return index
def nvmlDeviceGetMemoryInfo(index): return Memory(KINDS[index][1])
def nvmlDeviceGetName(index): return KINDS[index][0]
def nvmlDeviceGetCudaComputeCapability(index): return KINDS[index][2]
"""


@pytest.fixture
def nvml(tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    return tmp_path / "pynvml.py"


def test_machine_is_described_by_its_smallest_gpu(nvml):
    nvml.write_text(NVML)
    found = machine.look_at_machine()
    assert (found.gpu.name, found.gpu.capability, found.gpus) == ("NVIDIA L4", (8, 9), 2)
    assert found.gpu_free == (24 << 30) - 1


@pytest.mark.parametrize("text", ["raise SystemExit(3)", "import os; os.abort()", "print('noise')", "1/0"])
def test_machine_whose_nvml_breaks_has_no_gpu(nvml, text):
    nvml.write_text(text)
    found = machine.look_at_machine(4)
    assert (found.gpu, found.gpus) == (None, 4)
    assert found.ram > 0


def test_machine_whose_nvml_hangs_is_not_waited_for(nvml, monkeypatch):
    monkeypatch.setattr(machine, "_NVML_SECONDS", 1)
    nvml.write_text("import time; time.sleep(600)")
    assert machine.list_gpus() == []

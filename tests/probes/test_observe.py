"""Observers with real interpreters, modules and programs that misbehave."""

import os
import sys

import pytest

from doctor.probes.base import observe
from doctor.probes.base.context import Interpreter
from tests.probes.helpers import make_context, write_package, write_program, write_python


@pytest.fixture
def stack(tmp_path):
    """A Python with a site folder of its own, and the context that looks at it."""
    site = tmp_path / "site"
    site.mkdir()
    python = write_python(tmp_path, site)
    environment = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "HOME": str(tmp_path)}
    return site, make_context("/", environment=environment)._replace(python=Interpreter(python, "test"))


def write_torch(site, text):
    write_package(site, "torch", "2.11.0", module="torch", text=text)


GOOD = """
class version: cuda = None; hip = None
class _C: pass
__version__ = "2.11.0"
"""


def test_packages_are_listed_without_importing_them(stack):
    site, context = stack
    write_torch(site, "raise SystemExit(9)")
    write_package(site, "sglang", "0.5.15.post1", requires=("torch==2.11.0", 'x; extra == "y"'))
    found = observe.observe_python(context).data
    assert found["packages"]["torch"][0]["version"] == "2.11.0"
    assert found["packages"]["sglang"][0]["requires"] == ["torch==2.11.0", 'x; extra == "y"']
    assert found["interpreter"]["headers"] in (True, False)


def test_packages_of_an_interpreter_that_logs_at_its_start(stack):
    """As hooks of tracing tools do: JSON lines of their own, before ours and among them."""
    site, context = stack
    log = """{"level": "info", "name": "tracer", "module": "hook"}"""
    (site / "sitecustomize.py").write_text(f"import atexit; print({log!r}); atexit.register(print, {log!r})\n")
    write_torch(site, "")
    found = observe.observe_python(context).data
    assert "headers" in found["interpreter"]
    assert "tracer" not in found["packages"]
    assert found["packages"]["torch"][0]["version"] == "2.11.0"
    assert "hook" not in observe.observe_imports(context).data
    assert all("avutil" in row for row in observe.observe_codecs(context).data["libraries"])


def test_packages_of_an_interpreter_that_exits(stack):
    _, context = stack
    write_program(context.python.path, "#!/bin/sh\necho broken >&2\nexit 7\n")
    assert observe.observe_python(context).reason == "it ended with code 7: broken"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("raise OSError('libtorch_cuda.so: cannot open')", "OSError: libtorch_cuda.so"),
        ("raise SystemExit('no')", "SystemExit: no"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)", "killed by SIGSEGV"),
        ("import os; os._exit(4)", "ended with code 4"),
        ("import os; os.abort()", "killed by SIGABRT"),
    ],
)
def test_torch_that_breaks_on_import(stack, text, words):
    site, context = stack
    write_torch(site, text)
    assert words in observe.observe_imports(context).data["torch"]["error"]


def test_torch_that_hangs_on_import(stack, monkeypatch):
    monkeypatch.setattr(observe, "_IMPORTS", 1.0)
    site, context = stack
    write_torch(site, "import time; time.sleep(600)")
    answer = observe.observe_imports(context)
    assert answer.data is None
    assert "gave no answer" in answer.reason


def test_crash_of_one_module_does_not_hide_the_others(stack):
    site, context = stack
    write_torch(site, GOOD)
    write_package(site, "sglang-kernel", "0.4.4", module="sgl_kernel", text="import os; os.abort()")
    write_package(site, "tokenizers", "1.0", module="tokenizers", text="print('noise'); __version__ = '1.0'")
    write_package(site, "torchaudio", "1.0", module="torchaudio", text="raise SystemExit('is not imported')")
    write_package(site, "torchvision", "1.0", module="torchvision")
    (site / "torchvision" / "_C.so").write_text("no library")
    found = observe.observe_imports(context).data
    assert found["torch"]["version"] == "2.11.0"
    assert found["sgl_kernel"]["error"] == "killed by signal 6"
    assert found["torchaudio"] == {"libraries": 0}
    assert "_C.so" in found["torchvision"]["error"]
    assert found["tokenizers"]["version"] == "1.0"
    assert found["cuda"] == {"count": 0, "built": False}


FORKS = """
asked = []
class version: cuda = "13.0"; hip = None
class _C:
    @staticmethod
    def _cuda_getArchFlags():
        asked.append(1)
        return "sm_80 sm_90"
class cuda:
    @staticmethod
    def init():
        if asked: raise RuntimeError("Cannot re-initialize CUDA in forked subprocess")
    @staticmethod
    def device_count(): return 2
__version__ = "2.11.0"
"""


def test_asking_for_architectures_leaves_cuda_usable(stack):
    """As torch 2.6 to 2.14 have it: the question marks the process, and every fork of it, as unfit for CUDA."""
    site, context = stack
    write_torch(site, FORKS)
    found = observe.observe_imports(context).data
    assert found["architectures"] == {"architectures": ["sm_80", "sm_90"]}
    assert found["cuda"] == {"count": 2, "built": True}


def find_library():
    """A library that is certainly there: the C library of this very process."""
    with open("/proc/self/maps", encoding="utf-8") as stream:
        return next(words[-1] for line in stream if "/libc" in (words := line.split() or [""])[-1])


def test_cores_of_torchcodec_are_loaded_beside_torch_up_to_one_that_loads(stack):
    site, context = stack
    write_torch(site, GOOD)
    write_package(site, "torchcodec", "0.17.0", module="torchcodec", text="raise SystemExit('is not imported')")
    (site / "torchcodec" / "libtorchcodec_core8.so").write_text("no library")
    for number in (6, 5):
        os.symlink(find_library(), site / "torchcodec" / f"libtorchcodec_core{number}.so")
    cores = observe.observe_imports(context).data["torchcodec"]["cores"]
    assert list(cores) == ["8", "6"]
    assert (cores["8"] != "", cores["6"]) == (True, "")


def test_codecs_are_looked_for(stack):
    site, context = stack
    write_package(site, "torchcodec", "0.11.1", module="torchcodec", text="raise OSError")
    (site / "torchcodec" / "libtorchcodec_core6.so").write_text("")
    assert observe.observe_codecs(context).data["cores"] == ["libtorchcodec_core6.so"]


def test_nvidia_smi_answers_when_nvml_does_not(stack, tmp_path, monkeypatch):
    _, context = stack
    fake = tmp_path / "fake"
    fake.mkdir()
    (fake / "pynvml.py").write_text("raise ImportError('no')\n")
    monkeypatch.setenv("PYTHONPATH", str(fake))
    write_program(tmp_path / "nvidia-smi", "#!/bin/sh\necho '0, NVIDIA H200, GPU-1, 143771, 143000, 580.65.06, 9.0'\n")
    answer = observe.observe_gpus(context)
    assert answer.data["source"] == "nvidia-smi"
    assert answer.data["devices"][0]["capability"] == [9, 0]
    assert answer.data["devices"][0]["total"] == 143771 << 20


def test_nvml_that_crashes_after_the_first_device_leaves_what_it_said(stack, tmp_path, monkeypatch):
    _, context = stack
    text = """
class NVMLError(Exception): pass
def nvmlInit(): pass
def nvmlDeviceGetCount(): return 2
def nvmlSystemGetDriverVersion(): return b"580.1"
def nvmlDeviceGetHandleByIndex(index):
    import os
    return index if index == 0 else os.abort()
def nvmlDeviceGetName(handle): return b"NVIDIA H200"
"""
    (tmp_path / "pynvml.py").write_text(text)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    answer = observe.observe_gpus(context)
    assert [device["name"] for device in answer.data["devices"]] == ["NVIDIA H200"]
    assert answer.data["driver"] == "580.1"
    assert "SIGABRT" in answer.reason


CLOSED = """
class NVMLError(Exception):
    value = 4
def nvmlInit(): pass
def nvmlSystemGetDriverVersion(): return "580.1"
def nvmlSystemGetCudaDriverVersion_v2(): return 13000
def nvmlDeviceGetCount(): return 4
def nvmlDeviceGetHandleByIndex(index):
    if index < 2: raise NVMLError("Insufficient Permissions")
    return index
def nvmlDeviceGetName(handle): return f"GPU {handle}"
"""


def test_gpus_that_a_control_group_closes_are_not_there(stack, tmp_path, monkeypatch):
    """As in a Slurm job: CUDA numbers the other two from 0."""
    _, context = stack
    (tmp_path / "pynvml.py").write_text(CLOSED)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    found = observe.observe_gpus(context).data
    assert found["count"] == 2
    assert [(device["index"], device["name"]) for device in found["devices"]] == [(0, "GPU 2"), (1, "GPU 3")]


@pytest.mark.parametrize("line", ["", "a, b", "0, X, U, [N/A], [N/A], 1, [N/A]", "No devices were found"])
def test_nvidia_smi_lines_that_are_odd(line):
    found = observe.read_smi_line(line)
    assert found is None or found["total"] is None


def test_paths_are_looked_at(stack, tmp_path):
    _, context = stack
    context = context._replace(environment={**context.environment, "TMPDIR": str(tmp_path)})
    row = observe.observe_paths(context).data[str(tmp_path)]
    assert row["exists"]
    assert row["writable"]


def test_paths_that_are_odd_do_not_hide_the_others(stack, tmp_path, monkeypatch):
    _, context = stack
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(observe, "list_paths", lambda _: ("no/such/model", "x" * 5000, "", str(tmp_path)))
    answer = observe.observe_paths(context)
    assert answer.reason == ""
    assert answer.data["no/such/model"]["folder"] == str(tmp_path)
    assert not answer.data["x" * 5000]["exists"]
    assert answer.data[str(tmp_path)]["exists"]


def test_paths_that_no_child_could_look_at_are_not_called_dead(stack, monkeypatch):
    _, context = stack
    monkeypatch.setattr(sys, "executable", "/nonexistent/python")
    answer = observe.observe_paths(context)
    assert (answer.data, answer.reason) == ({}, "/nonexistent/python did not start: No such file or directory")


def test_kernel_log_that_may_not_be_read(stack, tmp_path):
    _, context = stack
    write_program(tmp_path / "dmesg", "#!/bin/sh\necho 'dmesg: Operation not permitted' >&2\nexit 1\n")
    assert observe.observe_kernel(context).reason.endswith("Operation not permitted")


def test_hub_is_silent_without_online(stack):
    assert observe.observe_hub(stack[1]).reason == "--online was not given"


def test_hub_that_refuses(stack):
    context = stack[1]._replace(online=True, environment={**stack[1].environment, "HF_ENDPOINT": "http://127.0.0.1:9"})
    assert observe.observe_hub(context).data is None


def test_rendezvous_on_loopback():
    context = make_context("/", "sglang serve --model-path m --dist-init-addr localhost:5000")
    assert observe.observe_rendezvous(context).data


def test_objects_between_noise_are_read():
    assert observe.read_objects('noise\n{"a": 1}\n{broken\n[1]\n{"b": 2}\n') == [{"a": 1}, {"b": 2}]

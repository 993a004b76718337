"""Discovery, and that no probe or observer can break or stop a check."""

import os
import sys
import threading
from types import SimpleNamespace

import pytest

import doctor.probes
from doctor.errors import DoctorError
from doctor.launch.command import parse_command
from doctor.probes.base import runner
from doctor.probes.base.context import Answer
from doctor.probes.base.interpreter import find_interpreter
from doctor.probes.base.observe import OBSERVERS
from doctor.probes.base.result import make_ok
from tests.probes.helpers import make_context


def make_probe(action, name="made-up"):
    return SimpleNamespace(NAME=name, GROUP="gpu", SUMMARY="a made-up probe", NEEDS=(), INSIDE=False, probe=action)


def test_every_module_of_the_folder_is_a_probe():
    found = runner.list_probes()
    folder = os.path.dirname(doctor.probes.__file__)
    files = [name for name in os.listdir(folder) if name.endswith(".py") and name != "__init__.py"]
    assert len(found) == len(files) > 30
    assert len({probe.NAME for probe in found}) == len(found)
    for probe in found:
        assert probe.NAME.replace("-", "_") == probe.__name__.rpartition(".")[2]
        assert probe.GROUP in runner.GROUPS
        assert probe.SUMMARY
        assert isinstance(probe.INSIDE, bool)
        assert set(probe.NEEDS) <= set(OBSERVERS)


def test_probes_can_be_chosen_by_name_and_group():
    assert {probe.GROUP for probe in runner.choose_probes(["network"], [])} == {"network"}
    assert [probe.NAME for probe in runner.choose_probes(["ports", "hub"], ["hub"])] == ["ports"]


def test_unknown_probe_is_refused():
    with pytest.raises(DoctorError, match="no probe or group 'nonsense'"):
        runner.choose_probes([], ["nonsense"])


def test_probe_with_a_bug_is_a_result(tmp_path):
    def fail(_context):
        yield make_ok("made-up", "first")
        raise KeyError("x")

    results = runner.run_probes([make_probe(fail)], make_context(tmp_path))
    assert [result.status for result in results] == ["ok", "unknown"]
    assert "KeyError" in results[1].reason


def test_probe_with_a_doctor_error_gives_its_hint(tmp_path):
    def refuse(_context):
        raise DoctorError("no such thing", "do that")
        yield

    (result,) = runner.run_probes([make_probe(refuse)], make_context(tmp_path))
    assert (result.reason, result.fixes) == ("no such thing", ("do that",))


def test_probe_that_hangs_does_not_stop_the_others(tmp_path, monkeypatch):
    monkeypatch.setattr(runner, "PROBE_SECONDS", 0.3)
    release = threading.Event()

    def hang(_context):
        release.wait(30)
        return
        yield

    chosen = [make_probe(hang, "hangs"), make_probe(lambda _context: iter([make_ok("works", "yes")]), "works")]
    results = runner.run_probes(chosen, make_context(tmp_path))
    release.set()
    assert [(result.probe, result.status) for result in results] == [("hangs", "unknown"), ("works", "ok")]


def test_probes_run_one_after_the_other_where_no_thread_may_be_started(tmp_path, monkeypatch):
    def refuse(_thread):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    context = make_context(tmp_path)
    results = runner.run_probes([make_probe(lambda _: iter([make_ok("works", "yes")]), "works")], context)
    assert [result.status for result in results] == ["ok"]
    assert runner.start_observing(["hub"], context)()["hub"].reason == "--online was not given"


def test_observer_with_a_bug_is_a_reason(tmp_path, monkeypatch):
    def fail(_context):
        raise ValueError("broken")

    monkeypatch.setattr(runner, "OBSERVERS", {"bad": fail, "good": lambda _context: Answer(1)})
    found = runner.start_observing(["bad", "good"], make_context(tmp_path))()
    assert found["good"].data == 1
    assert "ValueError: broken" in found["bad"].reason


def test_every_probe_answers_on_an_empty_machine(tmp_path):
    context = make_context(
        tmp_path, "sglang serve --model-path /none --tp 2 --nnodes 2 --dist-init-addr a:1 --quantization fp8"
    )
    results = runner.run_probes(runner.list_probes(), context)
    assert {result.probe for result in results} == {probe.NAME for probe in runner.list_probes()}
    assert not [result.reason for result in results if "made a mistake" in result.reason]


def test_every_probe_answers_without_a_launch(tmp_path):
    results = runner.run_probes(runner.list_probes(), make_context(tmp_path))
    assert not [result.reason for result in results if "made a mistake" in result.reason]


@pytest.mark.parametrize("text", ["", "\0\0", "x: y z", "-1", "9" * 40, "\n" * 1000, "a" * 70000])
def test_every_probe_survives_nonsense_in_proc_and_sys(tmp_path, text):
    for path in (
        *("proc/meminfo", "proc/self/cgroup", "proc/self/status", "proc/pressure/memory", "proc/uptime", "proc/vmstat"),
        *("proc/net/tcp", "proc/net/tcp6", "proc/version", "proc/1/stat", "proc/1/cmdline", "proc/1/environ"),
        *("proc/driver/nvidia/version", "sys/fs/cgroup/memory.max", "sys/fs/cgroup/cpu.max", "etc/os-release"),
        *("sys/bus/pci/devices/0000/class", "sys/bus/pci/devices/0000/vendor", "proc/sys/vm/overcommit_memory"),
    ):
        target = tmp_path / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)
    results = runner.run_probes(runner.list_probes(), make_context(tmp_path, "sglang serve --model-path /m --tp 8"))
    assert not [result.reason for result in results if "made a mistake" in result.reason]


DOCKER = (
    "docker run --gpus all -v /models:/models lmsysorg/sglang python3 -m sglang.launch_server --model-path /models/m"
)
YAML = """
spec:
  containers:
  - command: ["python3", "-m", "sglang.launch_server", "--model-path", "/models/m"]
"""


@pytest.mark.parametrize("command", [DOCKER, YAML])
def test_launch_in_a_container_is_not_judged_by_what_is_outside(tmp_path, command):
    launch = parse_command(command)
    python = find_interpreter(None, launch, {"PATH": os.environ["PATH"]})
    context = make_context(tmp_path, command)._replace(python=python)
    found = {result.probe: result for result in runner.run_probes(runner.list_probes(), context)}
    for name in ("model-files", "shared-memory", "limits", "disk", "packages", "compilers", "ports"):
        assert (found[name].status, "run the check inside" in found[name].reason) == ("unknown", True)
    assert found["command"].status == "ok"


def test_interpreter_that_is_named_is_judged_even_for_a_container(tmp_path):
    python = find_interpreter(sys.executable, parse_command(DOCKER), {})
    assert not make_context(tmp_path, DOCKER)._replace(python=python).is_outside

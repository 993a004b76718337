"""What an earlier server left behind, over a folder in place of /."""
# ruff: noqa: S108 - these folders are looked at, nothing is written to them

import os

import pytest

from doctor.probes import leftovers
from tests.probes.helpers import (
    make_context,
    problems,
    run,
    statuses,
    write,
)


def write_process(root, pid, parent, line, *, state="S", name="python"):
    write(root, f"/proc/{pid}/cmdline", line)
    write(root, f"/proc/{pid}/stat", f"{pid} ({name}) {state} {parent} 1 1")


def test_orphaned_scheduler(tmp_path):
    write_process(tmp_path, 1, 0, "/sbin/init\0")
    write_process(tmp_path, 77, 1, "sglang::scheduler_TP0\0\0")
    (found,) = problems(leftovers, make_context(tmp_path))
    assert found.fixes == ("kill 77",)


def test_scheduler_of_a_running_server(tmp_path):
    write_process(tmp_path, 50, 1, "python\0-m\0sglang.launch_server\0")
    write_process(tmp_path, 77, 50, "sglang::scheduler\0")
    assert statuses(leftovers, make_context(tmp_path)) == ["ok"]


def test_scheduler_whose_server_is_process_1(tmp_path):
    write_process(tmp_path, 1, 0, "python\0-m\0sglang.launch_server\0")
    write_process(tmp_path, 77, 1, "sglang::scheduler\0")
    assert problems(leftovers, make_context(tmp_path)) == []


def test_zombie_scheduler(tmp_path):
    write_process(tmp_path, 60, 1, "bash\0")
    write_process(tmp_path, 77, 60, "", state="Z", name="sglang::schedul")
    (found,) = problems(leftovers, make_context(tmp_path))
    assert found.fixes == ("kill 60   # its parent",)


def test_doctor_with_a_launch_in_its_arguments_is_no_server(tmp_path):
    write_process(tmp_path, 77, 1, "python\0doctor\0check\0--\0sglang\0serve\0--model-path\0m\0")
    assert "running server" not in run(leftovers, make_context(tmp_path))[0].summary


@pytest.mark.parametrize("parent", ["python3.12\0my_app.py\0", "ray::SGLangEngine\0", "python\0-m\0dynamo.sglang\0"])
def test_scheduler_of_an_engine_in_another_program(tmp_path, parent):
    write_process(tmp_path, 50, 1, parent)
    write_process(tmp_path, 77, 50, "sglang::scheduler\0")
    assert problems(leftovers, make_context(tmp_path)) == []


def test_scheduler_of_a_python_that_calls_itself_otherwise(tmp_path):
    write_process(tmp_path, 50, 1, "my service: worker\0")
    os.symlink("/usr/bin/python3.12", tmp_path / "proc/50/exe")
    write_process(tmp_path, 77, 50, "sglang::scheduler\0")
    assert problems(leftovers, make_context(tmp_path)) == []


def test_scheduler_whose_parent_may_not_be_looked_at(tmp_path):
    write_process(tmp_path, 77, 50, "sglang::scheduler\0")
    assert problems(leftovers, make_context(tmp_path)) == []


def test_orphan_under_an_init_that_was_given_the_server(tmp_path):
    write_process(tmp_path, 1, 0, "/usr/bin/tini\0--\0python\0-m\0sglang.launch_server\0")
    write_process(tmp_path, 77, 1, "sglang::scheduler\0")
    assert [found.fixes for found in problems(leftovers, make_context(tmp_path))] == [("kill 77",)]


def test_no_processes_at_all_are_not_called_fine(tmp_path):
    assert statuses(leftovers, make_context(tmp_path)) == ["unknown"]


def test_segments_of_an_earlier_server(tmp_path):
    write_process(tmp_path, 1, 0, "/sbin/init\0")
    write(tmp_path, "/dev/shm/sgl_shm_1", "x" * (2 << 20))
    (found,) = problems(leftovers, make_context(tmp_path))
    assert "1 segments" in found.summary
    assert (found.severity, found.fixes) == ("info", ("rm /dev/shm/sgl_shm_1",))


def test_segments_of_another_program_that_runs_are_left_alone(tmp_path):
    write_process(tmp_path, 60, 1, "python\0train.py\0")
    line = "7f00-7f10 rw-s 00000000 00:16 5    /dev/shm/nccl-abc\n7f00-7f10 rw-s 00000000 00:16 5 /dev/shm/psm_1 (deleted)\n"
    write(tmp_path, "/proc/60/maps", line)
    for name in ("nccl-abc", "psm_1"):
        write(tmp_path, f"/dev/shm/{name}", "x" * (2 << 20))
    assert problems(leftovers, make_context(tmp_path)) == []


def test_segments_of_unknown_owner_are_not_removed_by_the_fix(tmp_path):
    write_process(tmp_path, 1, 0, "/sbin/init\0")
    write(tmp_path, "/dev/shm/nccl-abc", "x" * (2 << 20))
    (found,) = problems(leftovers, make_context(tmp_path))
    assert not any("rm " in fix for fix in found.fixes)


def test_segments_of_others_are_left_alone(tmp_path):
    write(tmp_path, "/dev/shm/postgres.1", "x" * (2 << 20))
    assert problems(leftovers, make_context(tmp_path)) == []

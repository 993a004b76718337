"""`doctor run` over a real SGLang: what it says, how soon, with which exit code, and what it leaves behind: nothing."""

import os
import signal
import socket
import time
from pathlib import Path

import pytest

from .real_server import find_python, take_turn
from .watched import CPU_FLAGS, HANG, Setup, Watched, add_row, truncate_weights, wait_for_none

pytestmark = pytest.mark.e2e
quick = pytest.mark.quick
NEVER = ("--restart", "never")
LIMIT_MIB = 1500


@pytest.fixture
def watched(model, tmp_path):
    with take_turn():
        made = Watched(Setup(str(find_python()), CPU_FLAGS), model, tmp_path)
        yield made
        made.clean_up()
    made.assert_nothing_left()


def note(name, watched, code, **figures):
    events = [row for row in watched.events if row["event"] == "state"]
    found = {row["after"]: round(row["time"] - watched.injected, 1) for row in events if row["time"] > watched.injected}
    rule = watched.diagnosis
    add_row(name, code=code, rule=rule, seconds=found, **figures)


def test_start_serve_200_requests_stop(watched):
    watched.start(*NEVER).wait_until_ready()
    assert "looks degenerate" in watched.said  # a random model without training
    begin = time.monotonic()
    assert all(watched.generate() == 200 for _ in range(200))
    seconds = time.monotonic() - begin
    watched.injected = time.time()
    code = watched.stop()
    note("200 requests, then SIGTERM", watched, code, seconds_of_requests=round(seconds, 1))
    assert code == 0


@pytest.mark.parametrize("name", [pytest.param("scheduler", marks=quick), "detokenizer"])
def test_killed_process(watched, name):
    watched.start(*NEVER).wait_until_ready().keep_busy()
    pid = watched.strike(f"sglang::{name}", signal.SIGKILL)
    code = watched.end()
    note(f"{name} killed (SIGKILL)", watched, code, explained=round(watched.seconds_to_explain, 2))
    assert (code, watched.diagnosis) == (137, "PROC001")
    assert f"pid {pid}" in watched.said
    assert watched.seconds_to("fault", kind="rank-dead") < 10
    assert watched.seconds_to_explain < 2


def test_stopped_scheduler(watched):
    watched.start(*NEVER).wait_until_ready().keep_busy()
    watched.strike("sglang::scheduler", signal.SIGSTOP)
    code = watched.end()
    note("scheduler stopped (SIGSTOP)", watched, code, explained=round(watched.seconds_to_explain, 2))
    assert (code, watched.diagnosis) == (137, "WATCH001")
    assert watched.seconds_to("fault", kind="stopped") < 30
    assert list((watched.folder / "evidence").glob("*/stack-*.txt"))


def test_deadlocked_scheduler(watched):
    (watched.folder / "sitecustomize.py").write_text(HANG)
    watched.start(*NEVER, env={"PYTHONPATH": str(watched.folder)}).wait_until_ready().keep_busy()
    watched.strike("sglang::scheduler", signal.SIGUSR2)
    code = watched.end()
    note("scheduler deadlocked", watched, code, explained=round(watched.seconds_to_explain, 2))
    assert (code, watched.diagnosis) == (137, "WATCH007")
    assert watched.seconds_to("fault", kind="stalled") < 35
    stacks = "".join(path.read_text() for path in (watched.folder / "evidence").glob("*/stack-*.txt"))
    assert "sitecustomize.py" in stacks


@quick
def test_taken_port(watched):
    with socket.create_server(("127.0.0.1", watched.port)):
        watched.start(*NEVER)
        code = watched.end(240)
    bind = next(line for line in watched.output.splitlines() if "[Errno 98]" in line)
    watched.injected = time.mktime(time.strptime(bind[1:20], "%Y-%m-%d %H:%M:%S"))
    note("port taken by another program", watched, code)
    assert (code != 0, watched.diagnosis) == (True, "NET001")
    assert watched.seconds_to("fault", kind="port-taken") < 10


def test_truncated_weights(watched):
    watched.model = truncate_weights(watched.model, watched.folder)
    watched.injected = time.time()
    code = watched.start().end(240)
    note("weights truncated", watched, code, explained=round(watched.seconds_to_explain, 2))
    assert code != 0
    assert "truncated" in watched.said or "incomplete" in watched.said
    assert "not started again" in watched.said


@quick
def test_misspelt_flag_is_mended(watched):
    watched.injected = time.time()
    watched.start("--apply", "safe", flags=("--mem-fracton-static", "0.7"))
    watched.wait_until_ready()
    assert watched.diagnosis == "ARG001"
    assert watched.generate() == 200
    code = watched.stop()
    note("misspelt flag with --apply safe", watched, code)
    assert code == 0
    assert sum(row["event"] == "start" for row in watched.events) == 2


def test_swallowed_warm_up_is_mended(watched):
    dead = dict.fromkeys(("HTTP_PROXY", "http_proxy"), "http://127.0.0.1:9")
    watched.start("--apply", "safe", env={**dead, "NO_PROXY": "", "no_proxy": ""})
    watched.wait_for("phase", phase="warmup")
    watched.injected = time.time()
    watched.wait_until_ready()
    assert watched.diagnosis == "NET006"
    assert watched.seconds_to("fault", kind="silent-start") < 60
    assert watched.generate() == 200
    code = watched.stop()
    note("dead proxy, --apply safe", watched, code)
    assert code == 0


def test_restart_after_a_killed_scheduler(watched):
    watched.start().wait_until_ready().keep_busy()
    watched.strike("sglang::scheduler", signal.SIGKILL)
    watched.wait_for("state", 60, after="backing-off")
    end = time.monotonic() + 180
    while sum(row.get("after") == "ready" for row in watched.events) < 2 and time.monotonic() < end:
        time.sleep(0.2)
    assert watched.generate() == 200
    code = watched.stop()
    note("scheduler killed, restarted", watched, code)
    assert code == 0


def test_sigterm_during_load(watched):
    watched.start(*NEVER).wait_for("phase", phase="load")
    watched.injected = time.time()
    code = watched.stop()
    note("SIGTERM during load", watched, code)
    assert code == 143


def test_killed_doctor(watched):
    watched.start(*NEVER).wait_until_ready()
    watched.running.kill()
    begin = time.monotonic()
    assert not wait_for_none(watched.mark, 15)
    add_row("doctor killed (SIGKILL)", seconds_to_nothing=round(time.monotonic() - begin, 1))


@pytest.fixture
def limited():
    """A memory cgroup (v1) too small for the server."""
    folder = Path(f"/sys/fs/cgroup/memory/doctor-e2e-{os.getpid()}")
    try:
        folder.mkdir()
        (folder / "memory.limit_in_bytes").write_text(str(LIMIT_MIB << 20))
    except OSError as error:
        pytest.skip(f"no memory cgroup v1 can be made here: {error}")
    yield folder
    folder.rmdir()


def test_host_guard(limited, watched):
    """The doctor is inside the limit as well, as in a container."""
    watched.start(*NEVER, prefix=("sh", "-c", f'echo $$ > {limited}/cgroup.procs; exec "$@"', "sh"))
    code = watched.end(240)
    note("host memory limit reached during the start", watched, code)
    assert (code != 0, watched.diagnosis) == (True, "WATCH009")
    assert "oom_kill 0" in (limited / "memory.oom_control").read_text()

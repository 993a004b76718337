"""Processes as they are found, and what is shown of a server."""

import os
import subprocess
import time

import pytest

from doctor.errors import DoctorError
from doctor.watch.kernel import format_record
from doctor.watch.listen import answer, parse_address
from doctor.watch.liveness import PATIENCE
from doctor.watch.model import Run, Stop
from doctor.watch.notify import find_period
from doctor.watch.process import is_compiler
from doctor.watch.screen import Screen
from doctor.watch.states import PHASES, READY, STALLED, STARTING
from doctor.watch.status import Status, describe, render_metrics
from doctor.watch.tree import Tree, choose_ranks, decode_status, read_stat
from doctor.watch.watch import find_exit_code
from tests.watch.world import make_member


# -- processes
def test_tree_finds_children_and_orphans_of_its_session():
    child = subprocess.Popen(["sh", "-c", "(sleep 60 &) ; sleep 60"], start_new_session=True)
    tree = Tree(child.pid)
    end = time.monotonic() + 10
    titles = []
    while titles != ["sleep 60", "sleep 60"] and time.monotonic() < end:  # a child is first a copy of the shell
        titles = sorted(member.title for member in tree.scan())[1:]
        time.sleep(0.05)
    assert titles == ["sleep 60", "sleep 60"]
    os.killpg(child.pid, 9)
    child.wait()


def test_tree_does_not_take_a_later_process_for_an_earlier_one(tmp_path):
    proc = tmp_path / "proc"
    (proc / "50").mkdir(parents=True)
    fields = ["S", "1", "50", "50"] + ["0"] * 15 + ["100"] + ["0"] * 30
    (proc / "50" / "stat").write_text(f"50 (a) b) {' '.join(fields)}\n")
    (proc / "50" / "cmdline").write_bytes(b"sglang::scheduler")
    tree = Tree(50, proc=str(proc))
    assert tree.scan()[0].is_rank
    fields[19] = "999"
    (proc / "50" / "stat").write_text(f"50 (x) {' '.join(fields)}\n")
    (proc / "50" / "cmdline").write_bytes(b"other")
    assert not any(member.is_rank for member in tree.scan())


@pytest.mark.parametrize("text", ["", "5", "5 (x", "5 (x) S a b", "\0"])
def test_stat_that_cannot_be_read_is_none(tmp_path, text):
    (tmp_path / "5").mkdir()
    (tmp_path / "5" / "stat").write_text(text)
    assert read_stat(5, str(tmp_path)) is None


def test_workers_are_ranks_only_where_nobody_has_a_title():
    titled, worker = (
        make_member(1, "sglang::scheduler"),
        make_member(2, "python -c from multiprocessing.spawn import x"),
    )
    assert choose_ranks([titled, worker]) == [titled]
    assert choose_ranks([worker, make_member(3, "python -c from multiprocessing.resource_tracker")]) == [worker]


def test_status_is_decoded():
    assert (decode_status(9), decode_status(256), decode_status(139)) == (-9, 1, -11)


def test_compilers_are_known_by_program():
    assert is_compiler("/usr/local/cuda/bin/nvcc -O3 x.cu")
    assert not is_compiler("python nvcc.py")


@pytest.mark.parametrize(
    ("state", "code", "expected"),
    [
        ("stopped", 0, 0),
        ("stopped", -15, 143),
        ("failed", 0, 1),
        ("failed", -9, 137),
        ("failed", 3, 3),
        ("failed", None, 137),
    ],
)
def test_exit_code(state, code, expected):
    run = Run(1, 0.0, code=code, stop=Stop("user", 15, 0.0, 0.0))
    assert find_exit_code(state, run) == expected


# -- what is shown
def test_status_line_names_phase_ranks_and_memory():
    text = describe(Status(STARTING, "load", 75.0, 2, 5, 3 << 30, 40 << 30, 1 << 30, 10 << 30, 80 << 30))
    assert text == "starting (load) | 1:15 | 2 ranks | GPU 10.0/80 GiB | host 3.0 GiB, 40.0 left"


def test_status_line_of_a_ready_server_has_tokens():
    assert "12 tok/s, 3 running, 1 queued" in describe(Status(READY, throughput=12.0, running=3, queued=1))


def test_metrics_escape_labels():
    assert 'cause="a\\"b"' in render_metrics(Status(restarts={'a"b': 2}))


def test_endpoints_follow_the_state():
    assert answer("/readyz", Status(STARTING), 0.0)[0] == 503
    assert answer("/readyz", Status(READY), 0.0)[0] == 200
    assert answer("/readyz", Status(STALLED), 0.0)[0] == 503
    assert answer("/livez", Status(STARTING), 10.0)[0] == 200
    assert answer("/livez", Status(READY, ticked=0.0), 100.0)[0] == 503
    assert answer("/livez", Status("failed"), 0.0)[0] == 503


@pytest.mark.parametrize("text", ["", "x", "host:", "1:99999", "host:-1"])
def test_listen_address_is_checked(text):
    with pytest.raises(DoctorError):
        parse_address(text)


def test_listen_address_forms():
    assert parse_address("9100") == ("127.0.0.1", 9100)
    assert parse_address("[::1]:9100") == ("::1", 9100)


def test_watchdog_period_is_half_and_only_ours():
    assert find_period({"WATCHDOG_USEC": "10000000"}) == 5.0
    assert find_period({"WATCHDOG_USEC": "10000000", "WATCHDOG_PID": "1"}) is None
    assert find_period({"WATCHDOG_USEC": "x"}) is None


def test_screen_takes_the_status_line_away_before_output():
    reader, writer = os.pipe()
    screen = Screen(writer, live=True)
    write = screen.wrap(lambda data: os.write(writer, data))
    screen.draw("status")
    write(b"line\n")
    screen.draw("status")
    write(b"half")
    screen.draw("status")
    screen.say("hello \x1b[31m")
    os.close(writer)
    erase = b"\r\x1b[K"
    with os.fdopen(reader, "rb") as stream:
        written = stream.read()
    assert written.startswith(erase + b"status" + erase + b"line\n" + erase + b"status" + erase + b"half\n")
    assert written.count(b"status") == 2
    assert b"\x1b[31m" not in written


def test_screen_writes_plain_lines_without_a_terminal():
    reader, writer = os.pipe()
    screen = Screen(writer, live=False)
    screen.draw("status")
    screen.say("hello")
    os.close(writer)
    with os.fdopen(reader, "rb") as stream:
        assert stream.read() == b"doctor: hello\n"


def test_kernel_record_looks_like_dmesg():
    line = format_record(b"3,900,12345678,-;Out of memory: Killed process 5 (x)\n SUBSYSTEM=a\n", 10.0)
    assert line == b"[   12.345678] Out of memory: Killed process 5 (x)\n"
    assert format_record(b"3,900,12345678,-;x\n", 13.0) == b""
    assert format_record(b"broken", 0.0) == b""


def test_every_phase_has_its_patience():
    assert set(PATIENCE) == set(PHASES)

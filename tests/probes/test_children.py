"""Children end with their group whatever they do."""

import os
import sys
import threading
import time

from doctor.probes.base.children import MAX_OUTPUT, run_child, start_clock


def run_text(text, seconds=10.0, clock=None):
    return run_child([sys.executable, "-c", text], seconds, os.environ, clock or start_clock(30))


def is_alive(pid):
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8") as stream:
            return stream.read().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def wait_for_end(pid):
    for _ in range(500):
        if not is_alive(pid):
            return True
        time.sleep(0.01)
    return False


def test_child_output_and_code():
    done = run_text("import sys; print('out'); print('err', file=sys.stderr); sys.exit(3)")
    assert (done.code, done.out, done.err) == (3, "out\n", "err\n")
    assert done.trouble == "it ended with code 3: err"


def test_child_that_hangs_is_killed_with_its_grandchild():
    text = "import subprocess, time; p = subprocess.Popen(['sleep', '600']); print(p.pid, flush=True); time.sleep(600)"
    done = run_text(text, 1.0)
    assert done.code is None
    assert "gave no answer within 1 s" in done.reason
    assert wait_for_end(int(done.out))


def test_grandchild_that_holds_the_pipe_does_not_hold_the_check():
    text = "import subprocess; p = subprocess.Popen(['sleep', '600']); print(p.pid, flush=True)"
    done = run_text(text)
    assert done.is_good
    assert wait_for_end(int(done.out))


def test_child_killed_by_a_signal_is_named():
    done = run_text("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)")
    assert done.trouble == "it was killed by SIGSEGV"


def test_child_that_ignores_sigterm_is_killed():
    done = run_text("import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)", 0.5)
    assert done.code is None


def test_program_that_does_not_exist_is_a_reason():
    done = run_child(["/nonexistent/program"], 5, {}, start_clock(30))
    assert done.code is None
    assert "No such file" in done.reason


def test_endless_output_is_bounded():
    done = run_text("import sys\nwhile True: sys.stdout.write('x' * 65536)", 1.0)
    assert done.code is None
    assert len(done.out) <= MAX_OUTPUT


def test_child_without_time_left_is_not_started():
    assert run_text("print(1)", clock=start_clock(0)).reason == "no time was left"


def test_child_is_stopped_by_the_event():
    clock = start_clock(30)
    threading.Timer(0.3, clock.stop.set).start()
    assert run_text("import time; time.sleep(600)", 20, clock).reason == "the check was stopped"


def test_bytes_that_are_no_utf8_are_replaced():
    done = run_text("import os; os.write(1, b'\\xff\\xfe')")
    assert done.out == "\N{REPLACEMENT CHARACTER}" * 2

"""What is read and written on the way: live output, logs, evidence, leftovers."""

import json
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from doctor.diagnosis.explain import Question
from doctor.errors import DoctorError
from doctor.watch import evidence
from doctor.watch.evidence import KEPT_FOLDERS, Scene, collect, find_base, find_py_spy, group_by_rank, prune
from doctor.watch.journal import Journal
from doctor.watch.leftovers import Leftovers, list_shared, make_environment
from doctor.watch.live import MOST_BYTES, Live
from doctor.watch.logfile import RotatedLog
from doctor.watch.model import Fault
from doctor.watch.tree import read_stat
from tests.watch.world import make_member

# -- reading live
OOM = b'[2026-04-24 06:29:19 TP0] Scheduler hit an exception: Traceback (most recent call last):\n  File "x.py", line 1, in f\ntorch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 79.11 GiB of which 1.00 GiB is free.\n'


def test_live_tells_an_event_after_silence():
    seen = threading.Event()
    live = Live(lambda _: seen.set())
    live.offer(b"[2026-04-24 06:29:19] The server is fired up and ready to roll!\n")
    assert seen.wait(30)
    live.close()


def test_live_counts_batch_lines():
    live = Live([].append)
    line = b"[2026-04-24 06:29:19 TP0] Decode batch, #running-req: 3, #token: 9, token usage: 0.03, cuda graph: True, gen throughput (token/s): 12.5, #queue-req: 2\n"
    live.offer(line * 5)
    live.settle(30)
    assert (live.batch.running, live.batch.queued, live.batch.throughput, live.batch.lines) == (3, 2, 12.5, 1)
    live.close()


def test_live_skips_what_it_cannot_take():
    live = Live([].append)
    for _ in range(3):
        live.offer(b"x" * (MOST_BYTES // 2 + 1))
    assert live.skipped > 0
    live.close()


def test_live_forgets_the_last_server():
    live = Live([].append)
    live.offer(OOM)
    live.settle(30)
    live.restart()
    assert live.diagnose(Question()).root is None
    live.close()


# -- files
def test_journal_redacts_and_keeps_to_a_line(tmp_path):
    journal = Journal(str(tmp_path / "events"))
    journal.write("note", text="--api-key s3cret9value\x1b[31m\nnext", pids=[1, 2])
    journal.close()
    row = json.loads((tmp_path / "events").read_text())
    assert "s3cret9value" not in row["text"]
    assert "\x1b" not in row["text"]
    assert row["pids"] == [1, 2]


def test_journal_refuses_a_folder(tmp_path):
    with pytest.raises(DoctorError):
        Journal(str(tmp_path))


def test_journal_goes_on_when_the_disk_is_full():
    journal = Journal("/dev/full")
    journal.write("note")
    journal.close()


@given(st.lists(st.binary(max_size=200_000), max_size=8))
def test_log_files_hold_every_byte(tmp_path_factory, chunks):
    folder = tmp_path_factory.mktemp("log")
    log = RotatedLog(str(folder), 1 << 18, pytest.fail)
    for chunk in chunks:
        log.write(chunk)
    log.close()
    files = sorted(folder.glob("server.log*"), reverse=True)
    assert b"".join(path.read_bytes() for path in files) == b"".join(chunks)
    assert all(path.stat().st_size <= 1 << 18 for path in files)


def test_log_file_too_small_is_refused(tmp_path):
    with pytest.raises(DoctorError):
        RotatedLog(str(tmp_path), 100, pytest.fail)


def make_scene(members=(), output=b""):
    fault = Fault("stalled", "words", 0.0, (5,))
    return Scene(fault, tuple(members), output, "memory", "", b"", dict(os.environ), sys.executable, lambda: None)


def test_evidence_goes_beside_the_log():
    assert find_base("x", "log", {}) == "x"
    assert find_base(None, "log", {}) == "log/evidence"
    assert find_base(None, None, {"XDG_STATE_HOME": "/s"}) == "/s/sglang-doctor/evidence"


def test_evidence_is_written_and_redacted(tmp_path):
    folder = collect(
        str(tmp_path), make_scene(output=b"\n[2026-04-24 06:29:19 TP1] HF_TOKEN=hf_abcdefghijklmnopqrstuvwxyz\n")
    )
    text = Path(folder, "output.txt").read_text("utf-8")
    assert "== TP1" in text
    assert "abcdefghij" not in text


def test_evidence_file_is_cut(tmp_path):
    scene = make_scene()._replace(kernel=b"[    1.000000] word\n" * 500_000)
    assert os.path.getsize(os.path.join(collect(str(tmp_path), scene), "kernel.txt")) == evidence.MOST_BYTES


def test_evidence_of_a_full_disk_is_none(tmp_path):
    (tmp_path / "file").write_text("")
    assert collect(str(tmp_path / "file"), make_scene()) == ""


def test_evidence_of_a_process_that_is_no_python_says_so(tmp_path):
    child = subprocess.Popen(["sleep", "60"])
    scene = make_scene([make_member(child.pid, "sglang::scheduler")])
    folder = collect(str(tmp_path), scene)
    child.kill()
    child.wait()
    assert os.path.exists(os.path.join(folder, f"stack-{child.pid}.txt"))


def test_evidence_folders_are_few(tmp_path):
    for number in range(KEPT_FOLDERS + 5):
        (tmp_path / f"20260424-0629{number:02}-stalled").mkdir()
    (tmp_path / "mine").mkdir()
    prune(str(tmp_path))
    assert len(list(tmp_path.glob("2026*"))) == KEPT_FOLDERS
    assert (tmp_path / "mine").exists()


def test_output_is_grouped_by_rank():
    text = group_by_rank(b"cut\n[2026-04-24 06:29:19 TP0] a\n[2026-04-24 06:29:19 TP1] b\nc\n")
    assert text.index("== TP0") < text.index("== TP1") < text.index("== no rank")
    assert "cut" not in text


def test_py_spy_is_found_beside_the_program(tmp_path):
    for name in ("python", "py-spy"):
        (tmp_path / name).write_text("#!/bin/sh\n")
        (tmp_path / name).chmod(0o755)
    assert find_py_spy({"PATH": str(tmp_path)}, "python") == str(tmp_path / "py-spy")


def test_leftovers_remove_what_was_mapped_and_nothing_else(tmp_path):
    before = list_shared()
    ours, theirs = f"/dev/shm/doctor-test-{os.getpid()}", f"/dev/shm/doctor-test-other-{os.getpid()}"  # noqa: S108
    program = f"import mmap, time; f = open({ours!r}, 'w+b'); f.write(b'x' * 4096); f.flush(); m = mmap.mmap(f.fileno(), 4096); print('up', flush=True); time.sleep(60)"
    open(theirs, "w").close()
    folder = tmp_path / "own"
    folder.mkdir()
    child = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE)
    child.stdout.readline()
    left = Leftovers(str(folder), before)
    left.note([child.pid])
    assert left.remove() == ()  # still mapped
    folder.mkdir()
    child.kill()
    child.communicate()
    assert left.remove() == (ours,)
    assert (os.path.exists(ours), os.path.exists(theirs), folder.exists()) == (False, True, False)
    os.unlink(theirs)


def test_environment_keeps_its_first_variable_first():
    made = make_environment("/tmp/x", {"FIRST": "1", "TMPDIR": "/old"})  # noqa: S108
    assert next(iter(made)) == "FIRST"
    assert made["TORCHINDUCTOR_CACHE_DIR"].startswith("/old/torchinductor_")
    assert made["TMPDIR"] == "/tmp/x"  # noqa: S108


def test_guardian_ends_only_whom_it_was_told_of(tmp_path):
    child = subprocess.Popen(["sleep", "60"], start_new_session=True)
    other = subprocess.Popen(["sleep", "60"], start_new_session=True)
    known = {"pids": [[child.pid, read_stat(child.pid).start], [other.pid, 1]], "folder": str(tmp_path / "none")}
    threading.Thread(target=child.wait, daemon=True).start()
    program = f"from doctor.watch.guardian import end_server; end_server({known!r})"
    subprocess.run([sys.executable, "-c", program], check=True)
    assert other.poll() is None
    other.kill()
    other.wait()
    assert child.wait(10) != 0

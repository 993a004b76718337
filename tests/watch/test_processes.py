"""The whole watchdog over real processes that behave like SGLang, and over some that do not."""

import os
import signal
import socket
import sys
import time
from pathlib import Path

import pytest

from tests.watch.conftest import scene, wait_until_gone

LOG = "seq 1 200000"


def test_run_passes_output_and_code(doctor):
    code = doctor.start("sh", "-c", "seq 1 5; echo error >&2; exit 7", options=("--restart", "never")).end()
    assert code == 7
    assert doctor.out.read_text() == "1\n2\n3\n4\n5\nerror\n"


def test_run_gives_128_and_the_signal(doctor):
    assert doctor.start("sh", "-c", "kill -SEGV $$").end() == 139


def test_run_refuses_a_missing_executable(doctor):
    assert doctor.start("no-such-program").end() == 2
    assert "no such program" in doctor.said


def test_run_refuses_a_file_that_may_not_be_run(doctor, tmp_path):
    (tmp_path / "plain").write_text("x")
    assert doctor.start(str(tmp_path / "plain")).end() == 2


def test_run_refuses_nothing(doctor):
    assert doctor.start().end() == 2


def test_run_tells_of_a_bad_interpreter(doctor, tmp_path):
    script = tmp_path / "script"
    script.write_text("#!/no/such/interpreter\n")
    script.chmod(0o755)
    assert doctor.start(str(script)).end() == 2


def test_run_keeps_every_byte_of_a_flood(doctor):
    doctor.start("sh", "-c", LOG, options=("--restart", "never", "--log-dir", str(doctor.folder / "log"))).end()
    expected = "".join(f"{number}\n" for number in range(1, 200001))
    assert doctor.out.read_text() == expected
    assert (doctor.folder / "log" / "server.log").read_text() == expected


def test_run_rotates_the_log(doctor):
    folder = doctor.folder / "log"
    doctor.start("sh", "-c", LOG, options=("--log-dir", str(folder), "--log-size", "256KiB")).end()
    files = sorted(folder.glob("server.log*"))
    assert len(files) > 2
    assert b"".join(path.read_bytes() for path in reversed(files)) == doctor.out.read_bytes()


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_run_refuses_a_read_only_log_folder(doctor, tmp_path):
    (tmp_path / "closed").mkdir(mode=0o500)
    assert doctor.start("true", options=("--log-dir", str(tmp_path / "closed" / "log"))).end() == 2


def test_run_refuses_a_log_folder_that_is_a_file(doctor, tmp_path):
    (tmp_path / "file").write_text("")
    assert doctor.start("true", options=("--log-dir", str(tmp_path / "file"))).end() == 2


def test_run_goes_on_when_the_log_disk_is_full(doctor, tmp_path):
    folder = tmp_path / "log"
    folder.mkdir()
    (folder / "server.log").symlink_to("/dev/full")
    assert doctor.start("sh", "-c", "seq 1 1000", options=("--log-dir", str(folder))).end() == 0
    assert doctor.out.read_text().endswith("1000\n")
    assert "No space left" in doctor.said
    assert f"MiB of output are missing in {folder}" in doctor.said


@scene
def test_run_goes_on_when_its_reader_leaves(doctor):
    reader, writer = os.pipe()
    doctor.start("sh", "-c", "seq 1 100000; sleep 0.2; exit 4", options=("--restart", "never"), stdout=writer)
    os.close(writer)
    os.read(reader, 10)
    os.close(reader)
    assert doctor.end() == 4


@scene
def test_server_becomes_ready_and_stops_on_sigterm(doctor):
    doctor.start_fake().wait_for("ready: fired up")
    doctor.process.send_signal(signal.SIGTERM)
    assert doctor.end() == 0
    assert [event["after"] for event in doctor.events if event["event"] == "state"] == [
        "ready",
        "draining",
        "dead",
        "stopped",
    ]


@scene
def test_server_that_ignores_sigterm_is_killed(doctor):
    doctor.start_fake("ignore-term", options=("--stop-after", "1")).wait_for("ready: fired up")
    doctor.process.send_signal(signal.SIGTERM)
    assert doctor.end() == 137


@scene
def test_server_is_killed_on_the_second_ctrl_c(doctor):
    doctor.start_fake("ignore-term").wait_for("ready: fired up")
    doctor.process.send_signal(signal.SIGTERM)
    doctor.wait_for("draining")
    doctor.process.send_signal(signal.SIGTERM)
    assert doctor.end() == 137


@scene
def test_server_does_not_outlive_a_killed_doctor(doctor):
    doctor.start_fake("leave").wait_for("ready: fired up")
    time.sleep(2.5)
    segment, folder = find_things(doctor)
    doctor.process.kill()
    assert wait_until_gone(doctor.mark) == []
    assert not os.path.exists(segment)
    assert not os.path.exists(folder)


@scene
def test_server_outlives_a_killed_doctor_with_keep(doctor):
    doctor.start_fake(options=("--keep",)).wait_for("ready: fired up")
    (main,) = doctor.find("fake_server.py --model")[-1:]
    doctor.process.kill()
    doctor.process.wait()
    time.sleep(1.0)
    servers = doctor.find("fake_server.py")
    for pid in servers:
        os.kill(pid, signal.SIGTERM)
    assert main in servers


def find_things(doctor):
    line = next(line for line in doctor.said.splitlines() if "segment /dev/shm" in line)
    words = line.split()
    return words[words.index("segment") + 1], words[words.index("folder") + 1]


@scene
def test_killed_scheduler_is_named_and_nothing_is_left(doctor):
    doctor.start_fake("leave").wait_for("ready: fired up")
    time.sleep(2.5)
    segment, folder = find_things(doctor)
    os.kill(doctor.find("sglang::scheduler")[0], signal.SIGKILL)
    assert doctor.end() == 137
    assert "signal 9" in doctor.said or "SIGKILL" in doctor.said
    assert not os.path.exists(segment)
    assert not os.path.exists(folder)


@scene
def test_killed_scheduler_that_the_server_ignores(doctor):
    doctor.start_fake("zombie").wait_for("ready: fired up")
    os.kill(doctor.find("sglang::scheduler")[0], signal.SIGKILL)
    doctor.wait_for("stalled: sglang::scheduler", 5)
    assert doctor.end() != 0
    assert "WATCH002" in doctor.said


@scene
def test_stopped_scheduler_is_found_and_its_stack_kept(doctor):
    doctor.start_fake().wait_for("ready: fired up")
    os.kill(doctor.find("sglang::scheduler")[0], signal.SIGSTOP)
    doctor.wait_for("stalled: sglang::scheduler", 10)
    assert doctor.end() != 0
    assert "WATCH001" in doctor.said
    (folder,) = (doctor.folder / "evidence").iterdir()
    assert {"fault.txt", "processes.txt", "memory.txt", "output.txt"} <= {path.name for path in folder.iterdir()}


@scene
def test_stuck_server_with_requests_is_found(doctor):
    doctor.start_fake("stuck", options=("--restart", "never", "--stall-after", "5")).wait_for("ready: fired up")
    (doctor.folder / "stuck").write_text("")
    with socket.create_connection(("127.0.0.1", doctor.port)) as link:
        link.sendall(b"POST /generate HTTP/1.1\r\nContent-Length: 0\r\n\r\n")
        doctor.wait_for("stalled: requests wait", 30)
        assert doctor.end() != 0
    assert "WATCH007" in doctor.said


@scene
def test_taken_port_is_a_fault_within_ten_seconds(doctor):
    with socket.create_server(("127.0.0.1", doctor.port)):
        begin = time.monotonic()
        doctor.start_fake("fired-up-anyway").wait_for("stalled", 10)
        assert doctor.end() != 0
    assert time.monotonic() - begin < 25
    assert "address already in use" in doctor.said
    assert "FAILURE" in doctor.said


@scene
def test_garbage_is_reported_and_served(doctor):
    doctor.start_fake("garbage").wait_for("looks degenerate").wait_for("ready: fired up")
    doctor.process.send_signal(signal.SIGTERM)
    assert doctor.end() == 0


@scene
def test_restart_after_a_crash(doctor):
    doctor.start_fake(options=()).wait_for("ready: fired up")
    os.kill(doctor.find("sglang::scheduler")[0], signal.SIGKILL)
    doctor.wait_for("backing-off: restart 1", 20)
    doctor.wait_for("(?s)backing-off.*starting.*ready: fired up", 30)
    doctor.process.send_signal(signal.SIGTERM)
    assert doctor.end() == 0


@scene
def test_command_that_goes_into_the_background(doctor):
    doctor.start("sh", "-c", "setsid sh -c 'sleep 7; exit 5' & exit 0", options=("--restart", "never"))
    doctor.wait_for("went into the background", 15)
    assert doctor.end() == 5


@scene
def test_orphans_of_a_crash_are_ended(doctor):
    doctor.start("sh", "-c", "setsid sleep 300 & exit 3", options=("--restart", "never"))
    assert doctor.end() == 3
    assert wait_until_gone(doctor.mark) == []


def test_program_that_is_not_sglang_is_not_restarted(doctor):
    assert doctor.start("false").end() == 1
    assert "does not look like an SGLang launch" in doctor.said


@scene
def test_endpoints_tell_the_state(doctor):
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    doctor.start_fake(options=("--listen", str(port))).wait_for("ready: fired up")
    time.sleep(1.2)
    assert get(port, "/livez")[0] == 200
    assert get(port, "/readyz") == (200, "ready warmup \n")
    text = get(port, "/metrics")[1]
    assert 'sglang_doctor_state{state="ready"} 1' in text
    assert "sglang_doctor_seconds_to_ready" in text
    assert get(port, "/other")[0] == 404
    doctor.process.send_signal(signal.SIGTERM)
    assert doctor.end() == 0


def get(port, path):
    import http.client

    link = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    try:
        link.request("GET", path)
        reply = link.getresponse()
        return reply.status, reply.read().decode()
    finally:
        link.close()


def test_systemd_is_told(doctor, tmp_path):
    path = str(tmp_path / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as channel:
        channel.bind(path)
        channel.settimeout(20)
        doctor.start_fake(env={"NOTIFY_SOCKET": path, "WATCHDOG_USEC": "2000000"})
        messages = b""
        while b"READY=1" not in messages:
            messages += channel.recv(4096) + b"\n"
        assert b"WATCHDOG=1" in messages
        doctor.process.send_signal(signal.SIGTERM)
        assert doctor.end() == 0


@scene
def test_evidence_and_events_hold_no_secret(doctor):
    doctor.start(sys.executable, "-c", "import time; print('--api-key s3cr3tvalue', flush=True); time.sleep(60)")
    doctor.wait_for("s3cr3tvalue")
    children = doctor.find("import time")
    os.kill(children[0], signal.SIGSTOP)
    doctor.wait_for("evidence:", 30)
    doctor.process.send_signal(signal.SIGTERM)
    doctor.end()
    for path in (doctor.folder / "evidence").rglob("*.txt"):
        assert "s3cr3tvalue" not in path.read_text(), path
    assert "s3cr3tvalue" not in Path(doctor.events_path).read_text()

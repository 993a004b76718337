"""A real SGLang under a real `doctor run`, and the look at what is left afterwards."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from pathlib import Path

from .real_server import find_free_port, find_python

READY_SECONDS = 180
SHARED = Path("/dev/shm")  # noqa: S108 - where SGLang leaves segments behind
HANG = """\
import signal, time
def hang(*_):
    while True:
        time.sleep(3600)
signal.signal(signal.SIGUSR2, hang)
"""


class Watched:
    """One `doctor run` of a real server; `moments` are wall-clock times of what the test did."""

    def __init__(self, model, folder):
        self.model = model
        self.folder = folder
        self.port = find_free_port()
        self.mark = f"watched-{os.getpid()}-{self.port}"
        self.doctor = None
        self.before = list_left()
        self.injected = 0.0

    def start(self, *options, flags=(), prefix=(), env=None):
        bins = find_python().parent
        server = ["python", "-m", "sglang.launch_server", "--model-path", str(self.model), "--device", "cpu"]
        server += ["--host", "127.0.0.1", "--port", str(self.port), "--max-total-tokens", "4096", *flags]
        argv = [sys.executable, "-m", "doctor", "run", "--no-check", "--events", str(self.folder / "events.jsonl")]
        argv += ["--evidence", str(self.folder / "evidence"), *options, "--", *server]
        own = {"PATH": f"{bins}{os.pathsep}{os.environ['PATH']}", "HF_HUB_OFFLINE": "1", "DOCTOR_TEST_MARK": self.mark}
        with (self.folder / "out.txt").open("wb") as out, (self.folder / "err.txt").open("wb") as err:
            self.doctor = subprocess.Popen(
                [*prefix, *argv], stdout=out, stderr=err, env={**os.environ, **own, **(env or {})}
            )
        return self

    def wait_for(self, event, seconds=READY_SECONDS, **fields):
        """Wait for an event of the stream and give it."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            ended = self.doctor.poll() is not None
            for row in self.events:
                if row["event"] == event and all(row.get(name) == value for name, value in fields.items()):
                    return row
            if ended:
                break
            time.sleep(0.05)
        raise AssertionError(f"no {event} {fields}:\n{self.said}")

    def wait_until_ready(self):
        self.wait_for("state", after="ready")
        return self

    @property
    def events(self):
        path = self.folder / "events.jsonl"
        lines = path.read_text().splitlines(keepends=True) if path.exists() else []
        return [json.loads(line) for line in lines if line.endswith("\n")]

    @property
    def said(self):
        return (self.folder / "err.txt").read_text("utf-8", "replace")

    @property
    def output(self):
        return (self.folder / "out.txt").read_text("utf-8", "replace")

    def find(self, title):
        """The one process of our server with this title."""
        return next(pid for pid in list_marked(self.mark) if read(pid, "cmdline").startswith(title))

    def strike(self, title, number):
        """Send a signal to one process of the server and remember when."""
        pid = self.find(title)
        self.injected = time.time()
        os.kill(pid, number)
        return pid

    def generate(self, tokens=16, timeout=60):
        body = {"text": "hello", "sampling_params": {"max_new_tokens": tokens, "ignore_eos": True}}
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.port}/generate", json.dumps(body).encode(), {"Content-Type": "application/json"}
        )
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(request, timeout=timeout) as answer:
            return answer.status

    def keep_busy(self, clients=4):
        """Keep requests in flight until the server is gone."""

        def run():
            try:
                while True:
                    self.generate(1500)
            except OSError:
                return

        for _ in range(clients):
            threading.Thread(target=run, daemon=True).start()
        self.wait_for("state", 60, after="serving")
        return self

    def end(self, seconds=120):
        """Wait for the doctor's end and give its exit code."""
        return self.doctor.wait(seconds)

    def stop(self):
        self.doctor.send_signal(signal.SIGTERM)
        return self.end()

    @property
    def diagnosis(self):
        return next(row["rule"] for row in reversed(self.events) if row["event"] == "diagnosis")

    def seconds_to(self, event, **fields):
        """Seconds from the blow to an event."""
        return self.wait_for(event, 0.1, **fields)["time"] - self.injected

    @property
    def seconds_to_explain(self):
        """Seconds from the end of the tree to the diagnosis."""
        gone = self.wait_for("state", 0.1, after="dead")["time"]
        return self.wait_for("diagnosis", 0.1)["time"] - gone

    def clean_up(self):
        """Leave nothing behind whatever the test did."""
        if self.doctor and self.doctor.poll() is None:
            self.doctor.kill()
            self.doctor.wait(10)
        for pid in wait_for_none(self.mark, 10):
            os.kill(pid, signal.SIGKILL)

    def assert_nothing_left(self):
        assert not wait_for_none(self.mark, 10)
        end = time.monotonic() + 5
        while list_left() - self.before and time.monotonic() < end:
            time.sleep(0.1)
        assert list_left() - self.before == set()
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(("127.0.0.1", self.port))


def list_left():
    """Shared memory and folders of servers, as they are now."""
    names = ("sglang_*", "sgl_shm_*", "sem.mp-*", "psm_*", "nccl-*")
    return {path for name in names for path in SHARED.glob(name)} | set(Path("/tmp").glob("sgld-*"))  # noqa: S108


def read(pid, name):
    try:
        return Path(f"/proc/{pid}/{name}").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace")
    except OSError:
        return ""


def list_marked(mark):
    """Processes of our server: they carry the mark, or (setproctitle writes over the environment) descend from one."""
    pids = [int(name) for name in os.listdir("/proc") if name.isdecimal() and int(name) != os.getpid()]
    found = {pid for pid in pids if mark in read(pid, "environ")}
    parents = {pid: int((read(pid, "stat").rpartition(")")[2].split() or ["", "0"])[1]) for pid in pids}
    for _ in range(4):
        found |= {pid for pid, parent in parents.items() if parent in found}
    return sorted(pid for pid in found if read(pid, "stat").rpartition(")")[2].split()[:1] not in ([], ["Z"]))


def wait_for_none(mark, seconds):
    end = time.monotonic() + seconds
    while (left := list_marked(mark)) and time.monotonic() < end:
        time.sleep(0.1)
    return left


def truncate_weights(model, folder):
    """Copy a model and cut its weights in half."""
    target = folder / "cut"
    shutil.copytree(model, target)
    weights = target / "model.safetensors"
    with weights.open("r+b") as stream:
        stream.truncate(weights.stat().st_size // 2)
    return target


def add_row(name, **figures):
    """Append one line to the file that docs/watchdog.md was written from."""
    path = os.environ.get("WATCH_ROWS")
    if path:
        with Path(path).open("a") as stream:
            stream.write(json.dumps({"name": name, **figures}) + "\n")

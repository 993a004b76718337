"""A real SGLang server, alone or under a real `doctor run`, and the look at what is left afterwards."""

import contextlib
import http.client
import json
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

READY_SECONDS = 180.0
SHARED = Path("/dev/shm")  # noqa: S108 - where SGLang leaves segments behind
TEMPORARY = Path("/tmp")  # noqa: S108 - where the doctor makes the server's own folder
FIRED_UP = "The server is fired up and ready to roll!"
HANG = """\
import signal, time
def hang(*_):
    import torch
    while torch.cuda.is_available():
        torch.cuda._sleep(10**13)  # cycles: an hour and more
        torch.cuda.synchronize()
    while True:
        time.sleep(3600)
signal.signal(signal.SIGUSR2, hang)
"""


class Setup(NamedTuple):
    """Which SGLang is started: its Python, and the flags that this machine needs."""

    python: str
    flags: tuple[str, ...]


CPU_FLAGS = ("--device", "cpu", "--max-total-tokens", "4096")


class Server:
    """One start of a real server; `injected` is the wall-clock time of what the test did to it."""

    def __init__(self, setup: Setup, model: Path, folder: Path) -> None:
        self.setup = setup
        self.model = model
        self.folder = folder
        self.port = find_free_port()
        self.mark = f"watched-{os.getpid()}-{self.port}"
        self.process: subprocess.Popen[bytes] | None = None
        self.before = list_left()
        self.injected = 0.0
        self.seen: set[int] = set()
        self.sending = True

    def start(
        self,
        *options: str,
        flags: Sequence[str] = (),
        prefix: Sequence[str] = (),
        env: Mapping[str, str] | None = None,
    ) -> "Server":
        server = [Path(self.setup.python).name, "-m", "sglang.launch_server", "--model-path", str(self.model)]
        server += ["--host", "127.0.0.1", "--port", str(self.port), *self.setup.flags, *flags]
        path = f"{Path(self.setup.python).parent}{os.pathsep}{os.environ['PATH']}"
        own = {"PATH": path, "HF_HUB_OFFLINE": "1", "PYTHONUNBUFFERED": "1", "DOCTOR_TEST_MARK": self.mark}
        argv = [*prefix, *self.build(options, server)]
        self.injected = time.time()
        with (self.folder / "out.txt").open("wb") as out, (self.folder / "err.txt").open("wb") as err:
            self.process = subprocess.Popen(
                argv, stdout=out, stderr=err, env={**os.environ, **own, **(env or {})}, start_new_session=True
            )
        return self

    def build(self, options: Sequence[str], server: list[str]) -> list[str]:
        """The command line around the server's."""
        raise NotImplementedError

    def wait_until_ready(self) -> "Server":
        raise NotImplementedError

    @property
    def running(self) -> subprocess.Popen[bytes]:
        assert self.process is not None
        return self.process

    @property
    def said(self) -> str:
        return (self.folder / "err.txt").read_text("utf-8", "replace")

    @property
    def output(self) -> str:
        return (self.folder / "out.txt").read_text("utf-8", "replace")

    def find(self, title: str) -> int:
        """The one process of our server with this title."""
        return next(pid for pid in self.list_processes() if read(pid, "cmdline").startswith(title))

    def list_processes(self) -> list[int]:
        found = list_marked(self.mark)
        self.seen.update(found)
        return found

    def strike(self, title: str, number: int) -> int:
        """Send a signal to one process of the server and remember when."""
        pid = self.find(title)
        self.injected = time.time()
        os.kill(pid, number)
        return pid

    def signal(self, number: int) -> None:
        """Send a signal to what was started and remember when."""
        self.list_processes()
        self.injected = time.time()
        self.running.send_signal(number)

    def generate(self, tokens: int = 16, timeout: float = 60) -> int:
        body = {"text": "hello", "sampling_params": {"max_new_tokens": tokens, "ignore_eos": True}}
        status, _ = self.ask("/generate", timeout, json.dumps(body).encode())
        return status

    def ask(self, path: str, timeout: float, body: bytes | None = None, port: int = 0) -> tuple[int, bytes]:
        """One request without a proxy; raises OSError when nothing comes back."""
        url = f"http://127.0.0.1:{port or self.port}{path}"
        request = urllib.request.Request(url, body, {"Content-Type": "application/json"})
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(request, timeout=timeout) as answer:
            return answer.status, answer.read()

    def keep_busy(self, clients: int = 4) -> "Server":
        """Keep requests in flight until the server is gone."""

        def run() -> None:
            try:
                while self.sending:
                    self.generate(1500)
            except (OSError, http.client.HTTPException):
                return

        for _ in range(clients):
            threading.Thread(target=run, daemon=True).start()
        return self

    def end(self, seconds: float = 120) -> int:
        """Wait for the end and give the exit code."""
        return self.running.wait(seconds)

    def stop(self) -> int:
        self.signal(signal.SIGTERM)
        return self.end()

    def clean_up(self) -> None:
        """Leave nothing behind whatever the test did."""
        if self.process and self.process.poll() is None:
            self.process.kill()
            self.process.wait(10)
        for pid in wait_for_none(self.mark, 10):
            os.kill(pid, signal.SIGKILL)

    def assert_nothing_left(self) -> None:
        alive = wait_for_none(self.mark, 10)
        assert not alive, f"still alive: {alive}"
        end = time.monotonic() + 5
        while (left := list_left() - self.before) and time.monotonic() < end:
            time.sleep(0.1)
        assert not left, f"left behind: {left}"
        assert is_free(self.port), f"port {self.port} is still taken"


class Watched(Server):
    """A server under a real `doctor run`, with its events."""

    def build(self, options: Sequence[str], server: list[str]) -> list[str]:
        argv = [sys.executable, "-m", "doctor", "run", "--events", str(self.folder / "events.jsonl")]
        check = () if "--check" in options else ("--no-check",)
        rest = [option for option in options if option != "--check"]
        return [*argv, *check, "--evidence", str(self.folder / "evidence"), *rest, "--", *server]

    def wait_for(self, event: str, seconds: float = READY_SECONDS, **fields: object) -> dict[str, Any]:
        """Wait for an event of the stream and give it."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            ended = self.running.poll() is not None
            for row in self.events:
                if row["event"] == event and all(row.get(name) == value for name, value in fields.items()):
                    return row
            if ended:
                break
            time.sleep(0.05)
        raise AssertionError(f"no {event} {fields}:\n{self.said}")

    def wait_until_ready(self) -> "Watched":
        self.wait_for("state", after="ready")
        return self

    def keep_busy(self, clients: int = 4) -> "Watched":
        super().keep_busy(clients)
        self.wait_for("state", 60, after="serving")
        return self

    @property
    def events(self) -> list[dict[str, Any]]:
        path = self.folder / "events.jsonl"
        lines = path.read_text().splitlines(keepends=True) if path.exists() else []
        return [json.loads(line) for line in lines if line.endswith("\n")]

    @property
    def diagnosis(self) -> str | None:
        rules = (row["rule"] for row in reversed(self.events) if row["event"] == "diagnosis")
        return next(rules, None)

    def seconds_to(self, event: str, **fields: object) -> float:
        """Seconds from the blow to an event."""
        return float(self.wait_for(event, 0.1, **fields)["time"]) - self.injected

    @property
    def seconds_to_explain(self) -> float:
        """Seconds from the end of the tree to the diagnosis."""
        gone = self.wait_for("state", 0.1, after="dead")["time"]
        return float(self.wait_for("diagnosis", 0.1)["time"] - gone)


class Plain(Server):
    """The same server alone; what it leaves in its temporary folder stays countable."""

    def build(self, options: Sequence[str], server: list[str]) -> list[str]:  # noqa: ARG002 - the doctor's options
        self.temporary.mkdir(exist_ok=True)
        return ["env", f"TMPDIR={self.temporary}", *server]

    @property
    def temporary(self) -> Path:
        """Its own temporary folder: what it leaves there can be counted."""
        return TEMPORARY / f"plain-{self.port}"

    def wait_until_ready(self) -> "Plain":
        end = time.monotonic() + READY_SECONDS
        while FIRED_UP not in self.said + self.output:
            if self.running.poll() is not None or time.monotonic() > end:
                raise AssertionError(f"not ready:\n{self.said[-2000:]}")
            time.sleep(0.2)
        return self

    def keep_busy(self, clients: int = 4) -> "Plain":
        super().keep_busy(clients)
        time.sleep(2.0)
        return self


def find_free_port() -> int:
    """Below the kernel's own range, and low enough for the ports that SGLang derives (10000 above for gRPC)."""
    ports = range(20000, 32000)
    return next(port for port in random.sample(ports, len(ports)) if is_free(port))


def is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True


def list_left() -> set[Path]:
    """Shared memory that no living process maps, and folders that none has for its own: what servers left behind."""
    names = ("sglang_*", "sgl_shm_*", "sem.mp-*", "psm_*", "nccl-*")
    pids = [int(name) for name in os.listdir("/proc") if name.isdecimal()]
    mapped = {line.split()[4] for pid in pids for line in read(pid, "maps").splitlines() if f" {SHARED}/" in line}
    shared = {path for name in names for path in SHARED.glob(name) if find_inode(path) not in mapped}
    folders = {path for path in TEMPORARY.glob("sgld-*") if not any(str(path) in read(pid, "environ") for pid in pids)}
    return shared | folders


def find_inode(path: Path) -> str:
    with contextlib.suppress(OSError):
        return str(path.stat().st_ino)
    return ""


def read(pid: int, name: str) -> str:
    try:
        return Path(f"/proc/{pid}/{name}").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace")
    except OSError:
        return ""


def list_marked(mark: str) -> list[int]:
    """Processes of our server: they carry the mark, or (setproctitle writes over the environment) descend from one."""
    pids = [int(name) for name in os.listdir("/proc") if name.isdecimal() and int(name) != os.getpid()]
    found = {pid for pid in pids if mark in read(pid, "environ")}
    parents = {pid: int((read(pid, "stat").rpartition(")")[2].split() or ["", "0"])[1]) for pid in pids}
    for _ in range(4):
        found |= {pid for pid, parent in parents.items() if parent in found}
    return sorted(pid for pid in found if read(pid, "stat").rpartition(")")[2].split()[:1] not in ([], ["Z"]))


def wait_for_none(mark: str, seconds: float) -> list[int]:
    end = time.monotonic() + seconds
    while (left := list_marked(mark)) and time.monotonic() < end:
        time.sleep(0.1)
    return left


def truncate_weights(model: Path, folder: Path) -> Path:
    """Copy a model and cut its weights in half."""
    target = folder / "cut"
    shutil.copytree(model, target)
    weights = target / "model.safetensors"
    with weights.open("r+b") as stream:
        stream.truncate(weights.stat().st_size // 2)
    return target


def add_row(name: str, **figures: object) -> None:
    """Append one line to the file that docs/watchdog.md was written from."""
    path = os.environ.get("WATCH_ROWS")
    if path:
        with Path(path).open("a") as stream:
            stream.write(json.dumps({"name": name, **figures}) + "\n")

"""Start a real SGLang server from a typed command, wait for what becomes of it, and leave nothing behind."""

import contextlib
import os
import shlex
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

HOME = Path(os.environ.get("SGLANG_DOCTOR_E2E", "~/.cache/sglang-doctor/e2e-0.5.23")).expanduser()
READY = "The server is fired up and ready to roll!"
# A healthy start takes 20-40 s on two cores; a server that cannot reach itself gives up after two minutes.
LIMIT_SECONDS = 240
# A failed server may linger instead of exiting (a taken port); its log says all by then.
LINGER_SECONDS = 12
FAILED = ("[Errno 98]", "Traceback (most recent call last)")


class Outcome(NamedTuple):
    """What became of a start: `ended` is "ready", "exited" or "silent"; `seconds` until then."""

    ended: str
    code: int | None
    seconds: float
    log: str


def find_python() -> Path:
    python = HOME / "venv" / "bin" / "python"
    if not (HOME / ".ready").exists():
        pytest.fail(f"no SGLang in {HOME}: run `make e2e`, which installs it")
    return python


def find_free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextlib.contextmanager
def listen(port: int) -> Iterator[None]:
    """Hold a port as another server would."""
    with socket.socket() as taken:
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        taken.bind(("127.0.0.1", port))
        taken.listen()
        yield


@contextlib.contextmanager
def take_turn() -> Iterator[None]:
    """One at a time starts servers on this machine (two would not fit two cores), and leaves no shared memory behind."""
    import fcntl

    with (Path(tempfile.gettempdir()) / "real-server.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        before = list_shared_memory()
        try:
            yield
        finally:
            for path in list_shared_memory() - before:
                path.unlink(missing_ok=True)


def split_command(command: str) -> tuple[dict[str, str | None], list[str]]:
    """Split into the variables in front (None: unset) and the words after, as a shell and `env` would."""
    words = shlex.split(command, comments=False)
    env: dict[str, str | None] = {}
    while words and (words[0] in {"env", "-u"} or (words[0].partition("=")[0].isidentifier() and "=" in words[0])):
        word = words.pop(0)
        if word == "-u":
            env[words.pop(0)] = None
        elif word != "env":
            name, _, env[name] = word.partition("=")
    return env, words


def start_server(command: str, folder: Path) -> Outcome:
    """Run a command until the server answers, exits, or nothing more is to be expected; then stop it."""
    scratch = Path(tempfile.mkdtemp(prefix="e2e-"))  # a short path: Unix sockets allow 107 characters
    try:
        return run_to_end(command, folder, scratch)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def list_shared_memory() -> set[Path]:
    return set(Path("/dev/shm").glob("sglang_*"))  # noqa: S108 - where SGLang leaves segments behind


def run_to_end(command: str, folder: Path, scratch: Path) -> Outcome:
    env, words = split_command(command)
    bins = find_python().parent
    log = scratch / "server.log"
    own = {"TMPDIR": str(scratch), "HOME": str(scratch), "HF_HUB_OFFLINE": "1", "PYTHONUNBUFFERED": "1"}
    path = f"{bins}{os.pathsep}{os.environ['PATH']}"
    variables = {**os.environ, "PATH": path, **own, **env}
    with log.open("wb") as sink:
        begin = time.monotonic()
        server = subprocess.Popen(
            [str(bins / words[0]), *words[1:]],
            stdout=sink,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            env={name: value for name, value in variables.items() if value is not None},
            cwd=folder,
            start_new_session=True,
        )
        try:
            ended = wait_for_end(server, log, find_port(words))
            seconds = time.monotonic() - begin
        finally:
            stop_session(server)
    code = server.returncode if ended == "exited" else None
    return Outcome(ended, code, seconds, log.read_text("utf-8", "replace"))


def find_port(words: list[str]) -> int:
    ports = [words[at + 1] for at, word in enumerate(words[:-1]) if word == "--port"]
    return int(ports[-1]) if ports and ports[-1].isdecimal() else 30000


def wait_for_end(server: subprocess.Popen[bytes], log: Path, port: int) -> str:
    failed_at = None
    stop = time.monotonic() + LIMIT_SECONDS
    while time.monotonic() < stop:
        if server.poll() is not None:
            return "exited"
        text = log.read_text("utf-8", "replace")
        if READY in text and "[Errno 98]" not in text and answers(port):
            return "ready"
        if failed_at is None and any(word in text for word in FAILED):
            failed_at = time.monotonic()
        if failed_at is not None and time.monotonic() - failed_at > LINGER_SECONDS and "[Errno 98]" in text:
            return "silent"
        time.sleep(0.5)
    return "silent"


def answers(port: int) -> bool:
    """Tell whether the model behind this port generates a token."""
    body = b'{"text": "hello", "sampling_params": {"max_new_tokens": 2}}'
    request = urllib.request.Request(f"http://127.0.0.1:{port}/generate", body, {"Content-Type": "application/json"})
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(request, timeout=20) as answer:
            return answer.status == 200
    except urllib.error.HTTPError as error:
        with error:
            return error.code == 401  # it serves, and wants the key
    except OSError:
        return False


def stop_session(server: subprocess.Popen[bytes]) -> None:
    """End every process of the server's session: asked first, then killed."""
    for ask, patience in ((signal.SIGTERM, 4), (signal.SIGKILL, 15)):
        for pid in list_session(server.pid):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, ask)
        if wait_until_gone(server, patience):
            return
    pytest.fail(f"processes of session {server.pid} cannot be stopped: {list_session(server.pid)}")


def wait_until_gone(server: subprocess.Popen[bytes], seconds: float) -> bool:
    stop = time.monotonic() + seconds
    while time.monotonic() < stop:
        server.poll()
        if not list_session(server.pid):
            server.wait(10)
            return True
        time.sleep(0.2)
    return False


def list_session(leader: int) -> list[int]:
    """List the processes of a session that are not zombies."""
    import psutil

    found = []
    for process in psutil.process_iter(["pid", "status"]):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            if process.info["status"] != psutil.STATUS_ZOMBIE and os.getsid(process.info["pid"]) == leader:
                found.append(process.info["pid"])
    return found

"""Run the real doctor on small programs of our own."""

import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

FAKE = str(Path(__file__).with_name("fake_server.py"))


class Doctor:
    """One `doctor run` in a process of its own, with its output in files."""

    def __init__(self, folder):
        self.folder = folder
        self.mark = f"mark-{os.getpid()}-{folder.name}"
        self.process = None
        self.out = folder / "out.txt"
        self.err = folder / "err.txt"
        self.events_path = folder / "events.jsonl"
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.env = {"FAKE_MARK": self.mark, "FAKE_PORT": str(self.port), "FAKE_STUCK": str(folder / "stuck")}

    def start(self, *command, options=(), env=None, stdout=None):
        argv = [sys.executable, "-m", "doctor", "run", "--no-check", "--events", str(self.events_path)]
        argv += ["--evidence", str(self.folder / "evidence"), *options, "--", *command]
        with self.out.open("wb") as out, self.err.open("wb") as err:
            self.process = subprocess.Popen(
                argv, stdout=stdout or out, stderr=err, env={**os.environ, **self.env, **(env or {})}, cwd=self.folder
            )
        return self

    def start_fake(self, *acts, options=("--restart", "never"), env=None):
        words = [word for act in acts for word in ("--act", act)]
        command = (sys.executable, FAKE, "--model-path", "tiny", "--port", str(self.port), *words)
        return self.start(*command, options=options, env=env)

    def wait_for(self, text, seconds=30):
        """Wait until the doctor or the server said something."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if re.search(text, self.said):
                return self
            if self.process.poll() is not None:
                break
            time.sleep(0.05)
        assert re.search(text, self.said), self.said
        return self

    def end(self, seconds=30):
        """Wait for the end and give the exit code."""
        return self.process.wait(seconds)

    @property
    def said(self):
        return self.out.read_text("utf-8", "replace") + self.err.read_text("utf-8", "replace")

    @property
    def events(self):
        return [json.loads(line) for line in self.events_path.read_text().splitlines()]

    def find(self, title):
        """The ids of the server's processes with this in their command line, ours only."""
        names = (name for name in os.listdir("/proc") if name.isdecimal() and int(name) != self.process.pid)
        return [
            int(name)
            for name in names
            if str(self.port) in read(f"/proc/{name}/environ")
            and title in read(f"/proc/{name}/cmdline")
            and " run " not in read(f"/proc/{name}/cmdline")
        ]


def read(path):
    try:
        return Path(path).read_bytes().replace(b"\0", b" ").decode("utf-8", "replace")
    except OSError:
        return ""


def list_survivors(marker):
    """Processes that carry the test's marker in their environment."""
    return [int(name) for name in os.listdir("/proc") if name.isdecimal() and marker in read(f"/proc/{name}/environ")]


@contextlib.contextmanager
def attend(folder):
    """A doctor of its own, which leaves nothing behind whatever is done to it."""
    made = Doctor(folder)
    try:
        yield made
    finally:
        if made.process and made.process.poll() is None:
            made.process.kill()
            made.process.wait(10)
        left = wait_until_gone(made.mark)
        for pid in left:
            os.kill(pid, signal.SIGKILL)
    assert not left


@pytest.fixture
def doctor(tmp_path):
    with attend(tmp_path) as made:
        yield made


class Scenes:
    """Slow scenes, eight at a time: they wait far more than they work."""

    def __init__(self, folder, acts):
        self._folder = folder
        self._pool = ThreadPoolExecutor(8)
        self._played = {act.__name__: self._pool.submit(self._play, act) for act in acts}

    def _play(self, act):
        folder = self._folder / act.__name__
        folder.mkdir()
        with attend(folder) as made:
            act(made)
        return made

    def see(self, act):
        """The doctor after its scene; raises what went wrong in it."""
        return self._played[act.__name__].result()

    def close(self):
        self._pool.shutdown()


def scene(act):
    """Make a test of a scene: what it does with a doctor is played beside the others, its result is the test's."""

    def test(scenes):
        scenes.see(act)

    test.act = act
    test.__doc__ = act.__doc__
    return test


@pytest.fixture(scope="module")
def scenes(request, tmp_path_factory):
    """The scenes of those tests that were chosen."""
    chosen = [item.function for item in request.session.items if item.module is request.module]
    made = Scenes(tmp_path_factory.mktemp("scenes"), [test.act for test in chosen if hasattr(test, "act")])
    yield made
    made.close()


def wait_until_gone(marker, seconds=8):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        left = [pid for pid in list_survivors(marker) if pid != os.getpid()]
        if not left:
            return []
        time.sleep(0.1)
    return left

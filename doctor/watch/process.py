"""The server's processes: start them, find them, signal them, and clean up after them."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Mapping

from doctor.errors import DoctorError
from doctor.watch.guardian import Guardian
from doctor.watch.launch import Launch
from doctor.watch.leftovers import Leftovers, list_shared, make_environment
from doctor.watch.liveness import COMPILERS, Activity
from doctor.watch.notify import VARIABLES
from doctor.watch.tree import Member, Tree

_NOTE_SECONDS = 2.0
"""Between two looks at mapped shared memory during a start; ten times that later."""

_LOOK_SECONDS = 5.0
_MOVED_BYTES = 1 << 20
"""Bytes moved by all processes in one look that count as progress; an idle SGLang moves some kB."""

_PR_SET_CHILD_SUBREAPER = 36


class Process:
    """One server after another, all writing to `output`."""

    def __init__(self, output: int, guardian: Guardian | None) -> None:
        self._output = output
        self._guardian = guardian
        self._own = frozenset({guardian.pid}) if guardian else frozenset[int]()
        self._popen: subprocess.Popen[bytes] | None = None
        self._main = 0
        self._tree: Tree | None = None
        self._leftovers: Leftovers | None = None
        self._noted = 0.0
        self._activity = Activity()
        self._looked = 0.0
        self._moved = 0
        self.members: tuple[Member, ...] = ()

    def start(self, launch: Launch, environment: Mapping[str, str]) -> None:
        """Start a server in a session of its own. Raises DoctorError when that is not possible."""
        self._leftovers = Leftovers(tempfile.mkdtemp(prefix="sgld-"), list_shared())
        if self._guardian:
            self._guardian.tell(before=self._leftovers.before)
        wanted = {name: value for name, value in environment.items() if name not in VARIABLES}
        wanted = make_environment(self._leftovers.folder, {**wanted, **launch.variables})
        try:
            self._popen = subprocess.Popen(
                launch.argv,
                stdin=subprocess.DEVNULL,
                stdout=self._output,
                stderr=subprocess.STDOUT,
                env={**wanted, "PYTHONUNBUFFERED": "1"},
                start_new_session=True,
            )
        except OSError as error:
            self._leftovers.remove()
            raise DoctorError(f"{launch.argv[0]}: {error.strerror}", "check that it exists and may be run") from error
        self._main = self._popen.pid
        self._tree = Tree(self._main, self._own)
        self._activity = Activity(last_moved=time.monotonic())
        self._noted = self._looked = 0.0
        self.scan()

    @property
    def main(self) -> int:
        """The id of the main process."""
        return self._main

    def scan(self) -> tuple[Member, ...]:
        """Look at the processes; orphans that ended are reaped."""
        if self._tree is None:
            return ()
        self.members = self._tree.scan()
        for member in self.members:
            if not member.is_alive and member.stat.parent == os.getpid() and member.pid != self._main:
                with contextlib.suppress(ChildProcessError):
                    os.waitpid(member.pid, os.WNOHANG)
        self._note_leftovers()
        if self._guardian and self._leftovers:
            alive = [member.identity for member in self.members if member.is_alive]
            self._guardian.tell(pids=alive, folder=self._leftovers.folder, shared=self._leftovers.shared)
        return self.members

    def poll(self) -> int | None:
        """Give the main process's return code, None while it runs; an adopted one that is not our child gives 0."""
        if self._popen is None or self._main == self._popen.pid:
            return self._popen.poll() if self._popen else 0
        try:
            pid, status = os.waitpid(self._main, os.WNOHANG)
        except ChildProcessError:
            return None if any(member.pid == self._main and member.is_alive for member in self.members) else 0
        return os.waitstatus_to_exitcode(status) if pid else None

    def adopt(self, pid: int) -> None:
        """Take another process for the main one."""
        self._main = pid

    def signal_main(self, number: int) -> None:
        """Send a signal, and let a halted process go on so that it gets it."""
        self._note_leftovers(at_once=True)
        self._kill(self._main, number)
        self._kill(self._main, signal.SIGCONT)

    def signal_all(self, number: int) -> None:
        """Send a signal to everything there is now, children first seen last."""
        self._note_leftovers(at_once=True)
        for member in self.scan():
            if member.is_alive:
                self._kill(member.pid, number)

    def halt(self) -> None:
        """Stop everything at once; called by the guard's thread, so it uses the last look."""
        for member in reversed(self.members):
            self._kill(member.pid, signal.SIGSTOP)

    def look(self) -> Activity:
        """Say whether bytes move and compilers run."""
        now = time.monotonic()
        if now - self._looked >= _LOOK_SECONDS:
            moved = sum(_read_moved(member.pid) for member in self.members)
            last = now if moved - self._moved >= _MOVED_BYTES else self._activity.last_moved
            self._looked, self._moved = now, moved
            self._activity = Activity(any(is_compiler(member.title) for member in self.members), last)
        return self._activity

    def clean_up(self) -> tuple[str, ...]:
        """Remove what the server left; give the shared memory among it."""
        if self._leftovers is None:
            return ()
        removed = self._leftovers.remove()
        if self._guardian:
            self._guardian.tell(pids=[], folder="", shared={})
        return removed

    def _note_leftovers(self, at_once: bool = False) -> None:
        now = time.monotonic()
        if self._leftovers and (at_once or now - self._noted > _NOTE_SECONDS):
            self._leftovers.note(member.pid for member in self.members if member.is_alive)
            self._noted = now

    def _kill(self, pid: int, number: int) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)


def become_subreaper() -> bool:
    """Make orphans of the server come to this process; False where the kernel refuses."""
    import ctypes

    try:
        return bool(ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0)
    except (OSError, AttributeError):
        return False


def is_compiler(title: str) -> bool:
    """Tell a compiler by its program name."""
    return os.path.basename(title.split(" ", 1)[0]) in COMPILERS


def _read_moved(pid: int) -> int:
    try:
        with open(f"/proc/{pid}/io", "rb") as stream:
            rows = [line.split() for line in stream.read(1024).splitlines()]
        return sum(int(row[1]) for row in rows if row[0] in (b"rchar:", b"wchar:"))
    except (OSError, ValueError, IndexError):
        return 0

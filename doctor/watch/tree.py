"""The processes of a watched server, read from /proc: children, grandchildren, and orphans of its session."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from typing import NamedTuple

RANK_TITLES = ("sglang::scheduler", "sglang::detokenizer", "sglang::data_parallel_controller")
"""Processes that a server cannot live without (setproctitle, 0.4.6 to 0.5.23); tokenizer workers are replaced."""

_TITLE_BYTES = 200
_REFRESH_SECONDS = 30.0
"""How long a process stays known as a stranger: ids are used again."""

_TICKS = os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 100
_PAGE = os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 4096


class Stat(NamedTuple):
    """What /proc/PID/stat says: times in seconds, `rss` in bytes, `start` in ticks since boot.

    `code` is the wait status, meaningful for a zombie only, and 0 where the kernel hides it.
    """

    parent: int
    session: int
    state: str
    start: int
    cpu: float
    rss: int
    code: int


class Member(NamedTuple):
    """One process of the server; (pid, start) is its identity."""

    pid: int
    title: str
    stat: Stat

    @property
    def identity(self) -> tuple[int, int]:
        """Tell it from a later process with the same id."""
        return self.pid, self.stat.start

    @property
    def is_rank(self) -> bool:
        """Whether SGLang cannot serve without it."""
        return self.title.startswith(RANK_TITLES)

    @property
    def is_worker(self) -> bool:
        """Whether multiprocessing started it: what a rank looks like where setproctitle does not work."""
        return self.is_rank or "multiprocessing.spawn" in self.title

    @property
    def is_alive(self) -> bool:
        """False for a zombie."""
        return self.stat.state not in ("Z", "X")


def read_stat(pid: int, proc: str = "/proc") -> Stat | None:
    """Read one process, None when it is gone."""
    try:
        with open(f"{proc}/{pid}/stat", "rb") as stream:
            fields = stream.read().rpartition(b")")[2].split()
        return Stat(
            int(fields[1]),
            int(fields[3]),
            fields[0].decode(),
            int(fields[19]),
            (int(fields[11]) + int(fields[12])) / _TICKS,
            int(fields[21]) * _PAGE,
            int(fields[49]),
        )
    except (OSError, IndexError, ValueError):
        return None


def read_title(pid: int, proc: str = "/proc") -> str:
    """Read what ps shows; a kernel thread and a zombie have none."""
    try:
        with open(f"{proc}/{pid}/cmdline", "rb") as stream:
            return stream.read(_TITLE_BYTES).replace(b"\0", b" ").decode("utf-8", "replace").strip()
    except OSError:
        return ""


def decode_status(status: int) -> int:
    """Turn a wait status into a return code as subprocess gives it: -9 for SIGKILL."""
    return -(status & 0x7F) if status & 0x7F else status >> 8


def choose_ranks(members: Iterable[Member]) -> list[Member]:
    """List the living processes that SGLang cannot serve without; the workers where none has a title of SGLang's."""
    alive = [member for member in members if member.is_alive]
    return [one for one in alive if one.is_rank] or [one for one in alive if one.is_worker]


class Tree:
    """Finds a server's processes again and again at little cost: only ids not seen before are read.

    `own` are processes that the doctor started for itself. Orphans come to the doctor (it is their subreaper); they
    are taken for the server's unless they share the doctor's session.
    """

    def __init__(self, root: int, own: frozenset[int] = frozenset(), proc: str = "/proc") -> None:
        self._proc = proc
        self._root = root
        self._own = own | {os.getpid()}
        self._sessions = {root}
        self._doctor_session = os.getsid(0) if hasattr(os, "getsid") else 0
        self._members: dict[int, Member] = {}
        self._strangers: set[int] = set()
        self._refreshed = time.monotonic()

    def scan(self) -> tuple[Member, ...]:
        """Give the processes there are now, zombies too, in order of id."""
        now = time.monotonic()
        if now - self._refreshed > _REFRESH_SECONDS:
            self._strangers, self._refreshed = set(), now
        running = {int(name) for name in os.listdir(self._proc) if name.isdecimal()}
        self._strangers &= running
        self._update(running)
        self._add(sorted(running - self._members.keys() - self._strangers - self._own))
        return tuple(self._members[pid] for pid in sorted(self._members))

    def _update(self, running: set[int]) -> None:
        for pid, known in list(self._members.items()):
            stat = read_stat(pid, self._proc) if pid in running else None
            if stat is None or stat.start != known.stat.start:
                del self._members[pid]
            else:
                title = known.title if known.is_rank else read_title(pid, self._proc) or known.title
                self._members[pid] = Member(pid, title, stat)

    def _add(self, pids: list[int]) -> None:
        stats = {pid: stat for pid in pids if (stat := read_stat(pid, self._proc))}
        found = True
        while found:
            found = False
            for pid in [pid for pid, stat in stats.items() if self._belongs(pid, stat)]:
                stat = stats.pop(pid)
                self._members[pid] = Member(pid, read_title(pid, self._proc), stat)
                if stat.session not in (0, self._doctor_session):
                    self._sessions.add(stat.session)
                found = True
        self._strangers.update(stats)

    def _belongs(self, pid: int, stat: Stat) -> bool:
        if pid == self._root or stat.parent in self._members or stat.session in self._sessions:
            return True
        # as the first process of a container the doctor inherits everybody's orphans
        adopted = stat.parent == os.getpid() and os.getpid() != 1
        return adopted and stat.session != self._doctor_session

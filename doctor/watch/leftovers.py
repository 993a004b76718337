"""What a server leaves behind when it ends: shared memory, and temporary files in the folder made for it."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterable, Mapping

SHARED = "/dev/shm/"  # noqa: S108 - where shared memory lives on Linux
_MAPPED_LINES = 20_000
"""Lines read of one process's maps: a scheduler with CUDA has about 3,000."""


class Leftovers:
    """Knows what belongs to one server: a private TMPDIR, and segments that it mapped and that are new since the start.

    Python's shared memory, NCCL's and SGLang's `sglang_loads_*` outlive a killed process (seen in most runs of
    0.5.23, also after clean ends).
    """

    def __init__(self, folder: str, before: Mapping[str, int], shared: Mapping[str, int] | None = None) -> None:
        # `folder` has a short name: Unix sockets in it have 107 characters at most
        self.folder = folder
        self.before = dict(before)
        self.shared = dict(shared or {})

    def note(self, pids: Iterable[int]) -> None:
        """Look at what the server's processes have mapped."""
        inodes = {inode for pid in pids for inode in list_mapped(pid)}
        found = list_shared() if inodes else {}
        self.shared.update(
            {path: inode for path, inode in found.items() if inode in inodes and self.before.get(path) != inode}
        )

    def remove(self) -> tuple[str, ...]:
        """Remove all of it once no process of the server is left; give what was removed of shared memory."""
        removed = []
        in_use = _list_in_use() if self.shared else set[int]()
        for path, inode in self.shared.items():
            with contextlib.suppress(OSError):
                if os.stat(path).st_ino == inode and inode not in in_use:
                    os.unlink(path)
                    removed.append(path)
        shutil.rmtree(self.folder, ignore_errors=True)
        return tuple(removed)


def make_environment(folder: str, environment: dict[str, str]) -> dict[str, str]:
    """Point temporary files to a folder; caches that live beside them by default stay where they are."""
    import getpass

    old = environment.get("TMPDIR") or tempfile.gettempdir()
    try:
        user = getpass.getuser()
    except (KeyError, OSError):
        user = str(os.getuid())
    # new variables go last: setproctitle finds no room for a title when the first one is changed by the server itself
    wanted = {**environment, "TMPDIR": folder}
    wanted.setdefault("TORCHINDUCTOR_CACHE_DIR", os.path.join(old, f"torchinductor_{user}"))
    return wanted


def list_mapped(pid: int) -> set[int]:
    """List the inodes in /dev/shm that a process has mapped.

    Not their names: a named semaphore is mapped under a temporary one, which glibc then removes (sem_open).
    """
    found = set()
    try:
        with open(f"/proc/{pid}/maps", "rb") as stream:
            for line in stream.readlines(_MAPPED_LINES * 100):
                if SHARED.encode() in line:
                    found.add(int(line.split(None, 5)[4]))
    except (OSError, ValueError, IndexError):
        return found
    return found


def list_shared() -> dict[str, int]:
    """List what is in /dev/shm, path and inode."""
    try:
        with os.scandir(SHARED) as entries:
            return {entry.path: entry.inode() for entry in entries}
    except OSError:
        return {}


def _list_in_use() -> set[int]:
    """List what any process still maps: a segment may be shared with a server that the doctor does not know."""
    pids = (int(name) for name in os.listdir("/proc") if name.isdecimal())
    return {inode for pid in pids for inode in list_mapped(pid)}

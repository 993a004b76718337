"""Read small files below a root folder that tests can replace; what is not there or not readable is None."""

from __future__ import annotations

import os
import stat

MAX_BYTES = 1 << 20
"""Files of /proc and /sys are far smaller; anything larger is not what it should be."""


def place(root: str, path: str) -> str:
    """Return where an absolute path lies below the root."""
    return path if root == "/" else os.path.join(root, path.lstrip("/"))


def read_text(root: str, path: str) -> str | None:
    """Return a small regular file's text, None when it cannot be read; pipes and devices are never opened."""
    where = place(root, path)
    try:
        if not stat.S_ISREG(os.stat(where).st_mode):
            return None
        with open(where, "rb") as stream:
            return stream.read(MAX_BYTES).decode("utf-8", "replace")
    except (OSError, ValueError):
        return None


def read_number(root: str, path: str) -> int | None:
    """Return a file's whole number, None for `max` and anything else."""
    text = (read_text(root, path) or "").strip()
    return int(text) if text.lstrip("-").isdecimal() and len(text) < 24 else None


def list_names(root: str, path: str) -> list[str]:
    """List a folder in order, empty when it cannot be read."""
    try:
        return sorted(os.listdir(place(root, path)))
    except (OSError, ValueError):
        return []


def exists(root: str, path: str) -> bool:
    """Tell whether there is something at a path."""
    return os.path.lexists(place(root, path))


def is_program(path: str) -> bool:
    """Tell whether a path is a file that may be executed."""
    return os.path.isfile(path) and os.access(path, os.X_OK)


def read_fields(text: str | None) -> dict[str, int]:
    """Read lines such as `MemTotal:  123 kB` into bytes, and `oom_kill 3` into numbers."""
    found = {}
    for line in (text or "").splitlines():
        words = line.replace(":", " ").split()
        if len(words) >= 2 and words[1].isdecimal() and len(words[1]) < 20:
            found[words[0]] = int(words[1]) * (1024 if words[2:3] == ["kB"] else 1)
    return found

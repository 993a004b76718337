"""Who listens on a port and who is connected to it, from /proc/net: no packet is sent."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable

_ESTABLISHED, _LISTEN = "01", "0A"
_MOST_BYTES = 8 << 20
"""Read of each table: 50,000 connections."""


def read_table(port: int, state: str, pid: int | str = "self") -> list[tuple[str, str]]:
    """List (remote address, inode) of the sockets with this local port and state; empty when unreadable."""
    found = []
    for name in ("tcp", "tcp6"):
        with contextlib.suppress(OSError), open(f"/proc/{pid}/net/{name}", encoding="ascii") as stream:
            for line in stream.readlines(_MOST_BYTES)[1:]:
                row = line.split()
                if row[3] == state and row[1].endswith(f":{port:04X}"):
                    found.append((row[2], row[9]))
    return found


def count_clients(port: int) -> int:
    """Count connections to the port of this machine."""
    return len(read_table(port, _ESTABLISHED))


def find_listeners(port: int) -> set[str]:
    """Give the inodes of sockets that listen on the port."""
    return {inode for _, inode in read_table(port, _LISTEN)}


def owns_socket(pids: Iterable[int], inodes: set[str]) -> bool:
    """Tell whether one of the processes holds one of the sockets."""
    wanted = {f"socket:[{inode}]" for inode in inodes}
    for pid in pids:
        with contextlib.suppress(OSError):
            for name in os.listdir(f"/proc/{pid}/fd"):
                with contextlib.suppress(OSError):
                    if os.readlink(f"/proc/{pid}/fd/{name}") in wanted:
                        return True
    return False

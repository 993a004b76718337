"""Memory of the host and of the cgroup the server runs in: how much is left, how fast it goes, and when to act."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import NamedTuple

from doctor.memory.units import GIB, MIB

_RESERVE_SHARE = 0.04
_RESERVE_LEAST = 256 * MIB
_RESERVE_MOST = 4 * GIB
"""A desktop of 64 GB keeps 2.5 GiB, which it needs to stay usable; a server of 2 TB keeps 4 GiB."""

_AHEAD_SECONDS = 0.5
"""How far the slope is followed: about one sample, one decision and one SIGSTOP."""

_SLOPE_SECONDS = 1.0
_PRESSURE_PERCENT = 40.0
"""PSI `full avg10`: above it all tasks together waited for memory for 4 of 10 s; a healthy load stays below 5."""

_UNLIMITED = 1 << 60
"""cgroup v1 says 2**63 less a page for no limit."""


class Memory(NamedTuple):
    """One sample: bytes `available` before somebody is killed, `total` of the tighter limit, who limits, and PSI."""

    time: float
    available: int
    total: int
    limit: str
    pressure: float = 0.0


class Cgroup(NamedTuple):
    """One process's memory cgroup: its version (0: none), and the folders of it and its parents, each with a limit."""

    version: int
    folders: tuple[str, ...]


def find_reserve(total: int) -> int:
    """Give the default of --host-reserve in bytes: 4 % of memory, between 256 MiB and 4 GiB, at most a tenth."""
    return min(max(int(total * _RESERVE_SHARE), _RESERVE_LEAST), _RESERVE_MOST, total // 10)


def find_cgroup(pid: int | str = "self", root: str = "/") -> Cgroup:
    """Find the memory cgroup; v2 when the process is in one that accounts for memory, else v1."""
    base = os.path.join(root, "sys/fs/cgroup")
    for line in _read(os.path.join(root, f"proc/{pid}/cgroup")).splitlines():
        number, names, path = ([*line.split(":", 2), "", ""])[:3]
        if "memory" in names.split(","):
            return _list_folders(1, os.path.join(base, "memory"), path, "memory.limit_in_bytes")
        if number == "0" and os.path.exists(os.path.join(base, "cgroup.controllers")):
            return _list_folders(2, base, path, "memory.max")
    return Cgroup(0, ())


def _list_folders(version: int, base: str, path: str, name: str) -> Cgroup:
    """List the folders that limit; inside a container the path is the host's, and its own folder is the top."""
    parts = [part for part in path.split("/") if part not in ("", "..")]
    places = [os.path.join(base, *parts[:count]) for count in range(len(parts), -1, -1)]
    found = tuple(place for place in places if os.path.exists(os.path.join(place, name)))
    return Cgroup(version if found else 0, found)


def read_memory(time: float, cgroup: Cgroup, root: str = "/") -> Memory:
    """Sample the machine and the cgroup; the tighter of both counts."""
    fields = _read_fields(os.path.join(root, "proc/meminfo"))
    host = Memory(time, fields.get("MemAvailable:", 0) * 1024, fields.get("MemTotal:", 0) * 1024, "machine")
    pressure = read_pressure(root)
    inside = [_read_cgroup(time, cgroup.version, folder) for folder in cgroup.folders]
    tighter = min((one for one in (host, *inside) if one), key=lambda one: one.available)
    return tighter._replace(pressure=pressure)


def _read_cgroup(time: float, version: int, folder: str) -> Memory | None:
    limit_name, used_name = (
        ("memory.max", "memory.current") if version == 2 else ("memory.limit_in_bytes", "memory.usage_in_bytes")
    )
    limit = _to_number(_read(os.path.join(folder, limit_name)))
    used = _to_number(_read(os.path.join(folder, used_name)))
    if limit is None or used is None or limit >= _UNLIMITED:
        return None
    fields = _read_fields(os.path.join(folder, "memory.stat"))
    # page cache of the group is given back before anybody is killed; v1 counts children under `total_` names
    names = ("inactive_file", "active_file")
    cache = sum(fields.get(f"total_{name}", fields.get(name, 0)) for name in names)
    return Memory(time, max(limit - used + cache, 0), limit, f"memory cgroup v{version}")


def count_kills(cgroup: Cgroup) -> int | None:
    """Count the kernel's kills in the cgroup so far; None where it does not say."""
    name = "memory.events" if cgroup.version == 2 else "memory.oom_control"
    return _read_fields(os.path.join(cgroup.folders[0], name)).get("oom_kill") if cgroup.folders else None


def read_pressure(root: str = "/") -> float:
    """Give PSI's `full avg10` of memory in per cent, 0 without PSI."""
    for line in _read(os.path.join(root, "proc/pressure/memory")).splitlines():
        if line.startswith("full avg10="):
            return _to_float(line.split()[1].partition("=")[2])
    return 0.0


def must_act(samples: Sequence[Memory], reserve: int) -> str:
    """Say why the server must be stopped now, "" when it need not; samples are the last second or so, oldest first."""
    now = samples[-1]
    if now.available <= reserve:
        return f"{_gib(now.available)} of the {now.limit}'s {_gib(now.total)} are left, the reserve is {_gib(reserve)}"
    slope = find_slope(samples)
    ahead = now.available - slope * _AHEAD_SECONDS
    if slope > 0 and now.available < 3 * reserve and ahead <= reserve:
        return f"{_gib(now.available)} are left and {_gib(int(slope))} go every second; the reserve is {_gib(reserve)}"
    if now.pressure >= _PRESSURE_PERCENT and now.available < 2 * reserve:
        return f"tasks wait for memory {now.pressure:.0f} % of the time and {_gib(now.available)} are left"
    return ""


def find_slope(samples: Sequence[Memory]) -> float:
    """Give the bytes lost per second over the last second of samples."""
    now = samples[-1]
    recent = [one for one in samples if now.time - one.time <= _SLOPE_SECONDS]
    seconds = now.time - recent[0].time
    return (recent[0].available - now.available) / seconds if seconds > 0 else 0.0


def find_pause(samples: Sequence[Memory], reserve: int) -> float:
    """Give the seconds until the next sample: the nearer the end, the sooner."""
    now = samples[-1]
    slope = max(find_slope(samples), 1.0)
    left = (now.available - reserve) / slope
    return min(max(left / 4, 0.05), 0.5)


def _gib(size: int) -> str:
    return f"{size / GIB:.1f} GiB"


def _read(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as stream:
            return stream.read(1 << 16)
    except OSError:
        return ""


def _read_fields(path: str) -> dict[str, int]:
    rows = [line.split() for line in _read(path).splitlines()]
    return {row[0]: int(row[1]) for row in rows if len(row) > 1 and row[1].isdecimal()}


def _to_number(text: str) -> int | None:
    return int(text) if text.strip().isdecimal() else None


def _to_float(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return 0.0

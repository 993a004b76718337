"""The kernel's own records: OOM kills and NVIDIA Xid errors, from dmesg, journalctl -k or /var/log/messages."""

from __future__ import annotations

import re
from collections.abc import Iterator

from doctor.logs.events.types import KernelOom, Xid
from doctor.logs.records import Record

KEYWORDS = (
    b"oom-kill:",
    b"Out of memory: Kill",
    b"Memory cgroup out of memory",
    b"NVRM: Xid",
    b"oom_reaper",
    b"invoked oom-killer",
)

_KILLED = re.compile(
    r"(?:Out of memory|Memory cgroup out of memory): Kill(?:ed)? process (?P<pid>\d{1,10}) \((?P<task>[^)]{0,80})\)"
    r"(?:.{0,80}?anon-rss:(?P<anon>\d{1,15})kB)?(?:.{0,80}?shmem-rss:(?P<shmem>\d{1,15})kB)?"
)
_XID = re.compile(r"NVRM: Xid \((?P<device>[^)]{1,60})\): (?P<code>\d{1,4})\b(?:,\s*(?:pid=(?P<pid>\d{1,10}))?)?")
_TIME = re.compile(r"^\[([A-Z][a-z]{2} [A-Z][a-z]{2} +\d+ [\d:]+ \d{4})\]|^\[\s*(\d+\.\d+)\]")


def parse(record: Record) -> Iterator[KernelOom | Xid]:
    """Yield kills and Xid records, line by line."""
    for _, text in record.lines:
        if found := _KILLED.search(text[:1000]):
            constraint = "CONSTRAINT_MEMCG" if "cgroup" in found[0] else "CONSTRAINT_NONE"
            time = _TIME.match(text)
            sizes = (int(found["anon"] or 0), int(found["shmem"] or 0))
            yield KernelOom(
                record,
                int(found["pid"]),
                found["task"],
                constraint,
                *sizes,
                time[1] or time[2] if time else None,
            )
        elif found := _XID.search(text[:1000]):
            yield Xid(record, int(found["code"]), found["device"], int(found["pid"]) if found["pid"] else None)

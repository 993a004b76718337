"""Deaths of child processes as SGLang reports them."""

from __future__ import annotations

import re
from collections.abc import Iterator

from doctor.logs.events.types import ProcessExit
from doctor.logs.records import Record

KEYWORDS = (
    b"crashed with exit code",
    b"scheduler died during initialization",
    b"Exit code:",
    b"terminated with",
)

_PATTERNS = (
    re.compile(r"Subprocess (?P<name>[\w-]+) \(pid=(?P<pid>\d{1,10})\) crashed with exit code (?P<code>-?\d{1,6})\b"),
    re.compile(r"(?P<name>Rank \d{1,6} scheduler) died during initialization \(exit code: (?P<code>-?\d{1,6})\)"),
    re.compile(r"^Exit code: (?P<code>-?\d{1,6})\b"),
    re.compile(
        r"(?P<name>Scheduler or DataParallelController|\b\w{0,40}[Cc]ontroller) (?P<pid>\d{1,10})"
        r" terminated with (?P<code>-?\d{1,6})\b"
    ),
)


def parse(record: Record) -> Iterator[ProcessExit]:
    """Yield the deaths that the record names."""
    for _, text in record.lines[-60:]:
        for pattern in _PATTERNS:
            if found := pattern.search(text[:2000]):
                groups = found.groupdict()
                pid = groups.get("pid")
                yield ProcessExit(
                    record, groups.get("name") or "scheduler", int(pid) if pid else None, int(groups["code"])
                )
                break

"""The kernel's own record since the server started, where it may be read."""

from __future__ import annotations

import contextlib
import os

_MOST_RECORDS = 20_000
_EARLIER_SECONDS = 5.0


def read_kernel_log(since: float, path: str = "/dev/kmsg") -> bytes:
    """Give the records since a moment of the monotonic clock, in the form of dmesg; empty when not permitted."""
    lines = []
    with contextlib.suppress(OSError):
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            for _ in range(_MOST_RECORDS):
                line = format_record(os.read(descriptor, 8192), since - _EARLIER_SECONDS)
                if line:
                    lines.append(line)
        finally:
            os.close(descriptor)
    return b"".join(lines)


def format_record(record: bytes, since: float) -> bytes:
    """Turn `prio,seq,microseconds,flags;text` into a line of dmesg; empty when older than `since` seconds."""
    head, _, text = record.partition(b";")
    fields = head.split(b",")
    if len(fields) < 3 or not fields[2].isdigit():
        return b""
    seconds = int(fields[2]) / 1e6
    return b"[%12.6f] %s\n" % (seconds, text.partition(b"\n")[0]) if seconds >= since else b""

"""Lines that say how far the server has come (0.4.6 to 0.5.23)."""

from __future__ import annotations

import re
from collections.abc import Iterator

from doctor.logs.events.types import PhaseMark
from doctor.logs.records import Record

PHASES = ("args", "import", "dist-init", "load", "kv-pool", "capture", "warmup", "serving", "shutdown")
"""The order of a start; ranks and draft models repeat parts of it."""

_MARKS: tuple[tuple[str, str, str], ...] = (
    ("server_args=ServerArgs(", "args", "end"),
    ("server_args={", "args", "end"),
    ("Init torch distributed begin", "dist-init", "begin"),
    ("Init parallel begin", "dist-init", "begin"),
    ("Init torch distributed end", "dist-init", "end"),
    ("Init parallel end", "dist-init", "end"),
    ("Load weight begin", "load", "begin"),
    ("Load weight end", "load", "end"),
    ("KV Cache is allocated", "kv-pool", "begin"),
    ("Memory pool end", "kv-pool", "end"),
    ("max_total_num_tokens=", "capture", "end"),
    ("Started server process", "warmup", "begin"),
    ("Uvicorn running on", "warmup", "http"),
    ("error while attempting to bind on address", "warmup", "failed"),
    ("The server is fired up and ready to roll", "serving", "begin"),
    ("SIGTERM received", "shutdown", "begin"),
    ("Gracefully exiting", "shutdown", "begin"),
    ("Shutting down", "shutdown", "begin"),
    ("Finished server process", "shutdown", "end"),
    ("Received sigquit from a child process", "shutdown", "crash"),
    ("SIGQUIT received", "shutdown", "crash"),
)
_CAPTURE = re.compile(r"^Capture .{1,60}?\b(begin|end)\b")

KEYWORDS = (*(text.encode() for text, _, _ in _MARKS), b"Capture ")


def parse(record: Record) -> Iterator[PhaseMark]:
    """Yield the phase that this record's first line marks."""
    message = record.message
    if found := _CAPTURE.match(message):
        yield PhaseMark(record, "capture", found[1])
        return
    for text, phase, edge in _MARKS:
        if text in message[:200]:
            yield PhaseMark(record, phase, edge)
            return

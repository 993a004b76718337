"""GPU memory figures of the start-up lines, in GB as SGLang prints them (which are GiB)."""

from __future__ import annotations

import re
from collections.abc import Iterator

from doctor.logs.events.types import MemoryMark
from doctor.logs.records import Record

KEYWORDS = (b"avail mem=", b"KV Cache is allocated", b"max_total_num_tokens=", b"Raise --mem-fraction-static")

_GB = r"\d{1,9}(?:\.\d{1,9})?"
_AVAIL = re.compile(rf"avail mem=(-?{_GB})")
_USED = re.compile(rf"mem usage=(-?{_GB})")
_KV = re.compile(rf"#tokens: (\d{{1,15}})\b(?:, K size: ({_GB}) GB, V size: ({_GB}) GB|, KV size: ({_GB}) GB)?")
_TOTAL = re.compile(r"max_total_num_tokens=(\d{1,15})\b")
_WHERE = (
    ("Load weight begin", "before_load"),
    ("Load weight end", "after_load"),
    ("Memory pool end", "after_pool"),
    ("Capture", "capture"),
)


def parse(record: Record) -> Iterator[MemoryMark]:
    """Yield every figure of the record's first line."""
    message = record.message[:1000]
    for text, what in _WHERE:
        if message.startswith(text):
            yield from _figures(record, what, message)
    if found := _KV.search(message):
        yield MemoryMark(record, "kv_tokens", float(found[1]))
        sizes = [float(size) for size in found.groups()[1:] if size]
        if sizes:
            yield MemoryMark(record, "kv", sum(sizes))
    if found := _TOTAL.search(message):
        yield MemoryMark(record, "max_total_tokens", float(found[1]))


def _figures(record: Record, what: str, message: str) -> Iterator[MemoryMark]:
    if found := _AVAIL.search(message):
        yield MemoryMark(record, what, float(found[1]))
    if what == "after_load" and (found := _USED.search(message)):
        yield MemoryMark(record, "weights", float(found[1]))

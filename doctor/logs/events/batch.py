"""Batch lines: `Decode batch, #running-req: 16, #token: 2723, …` in the forms of 0.4.6 to 0.5.23."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator

from doctor.logs.events.types import BatchStats
from doctor.logs.records import RawRecord, Record, parse_record

KEYWORDS = (b"Decode batch", b"Prefill batch")

_HEAD = re.compile(r"(?:^|\] )(Prefill|Decode) batch(?: \[\d+\])?[.,] ")
_PREFIX = 200
"""Characters before the text: batch lines come as they stand, with what a container or an export put around them."""

_FIGURE = re.compile(r"([#A-Za-z][^:,]{0,60}?(?:\([^)]{0,40}\))?): ([^,]{1,40})")


def parse(record: Record) -> Iterator[BatchStats]:
    """Yield the figures of the record's first line; times and shares as floats, counts too."""
    head = _HEAD.search(record.message, 0, _PREFIX)
    if head is None:
        return
    values: dict[str, float] = {}
    graph = None
    figures = record.message[head.end() : 1200].partition('"')[0].partition("\\")[0]
    for name, text in _FIGURE.findall(figures):
        if name.endswith(" graph"):
            graph = text.strip() == "True"
        elif (number := _number(text)) is not None:
            values[name.strip()] = number
    yield BatchStats(_strip(record, head.start()) if head.start() else record, head[1], values, graph)


def _strip(record: Record, end: int) -> Record:
    """Take off what stands before the record's time, which ends at a place of its message."""
    begin = max(record.message.rfind("[20", 0, end), 0)
    return parse_record(RawRecord(record.process, [(record.line, record.message[begin:].encode())]), record.file)


def _number(text: str) -> float | None:
    try:
        number = float(text.strip().rstrip("%"))
    except ValueError:
        return None
    return number if math.isfinite(number) else None

"""Batch lines: `Decode batch, #running-req: 16, #token: 2723, …` in the forms of 0.4.6 to 0.5.23."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator

from doctor.logs.events.types import BatchStats
from doctor.logs.records import Record

KEYWORDS = (b"Decode batch", b"Prefill batch")

_HEAD = re.compile(r"^(Prefill|Decode) batch(?: \[\d+\])?[.,] ")
_FIGURE = re.compile(r"([#A-Za-z][^:,]{0,60}?(?:\([^)]{0,40}\))?): ([^,]{1,40})")


def parse(record: Record) -> Iterator[BatchStats]:
    """Yield the figures of the record's first line; times and shares as floats, counts too."""
    head = _HEAD.match(record.message)
    if head is None:
        return
    values: dict[str, float] = {}
    graph = None
    for name, text in _FIGURE.findall(record.message[head.end() : 1200]):
        if name.endswith(" graph"):
            graph = text.strip() == "True"
        elif (number := _number(text)) is not None:
            values[name.strip()] = number
    yield BatchStats(record, head[1], values, graph)


def _number(text: str) -> float | None:
    try:
        number = float(text.strip().rstrip("%"))
    except ValueError:
        return None
    return number if math.isfinite(number) else None

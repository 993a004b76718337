"""Progress of the grouped offloader (`[offloader] offload module_index=…`, `utils/offloader.py`, 0.5.2 to 0.5.23)."""

from __future__ import annotations

import re
from collections.abc import Iterator

from doctor.logs.events.types import OffloadStep
from doctor.logs.records import Record

KEYWORDS = (b"[offloader] offload module_index=", b"memory_allocated=")

_STEP = re.compile(
    r"\[offloader\] offload module_index=(?P<index>\d{1,9})\s+submodule=(?P<submodule><[^>]{0,200}>|\S+)"
    r"\s+params=\[(?P<params>[^\]]{0,500})\]\s*memory_allocated=(?P<allocated>\d{1,18})\b"
)
_TAIL = re.compile(r"^[^\[\]]{0,300}\]\s*memory_allocated=(?P<allocated>\d{1,18})$")


def parse(record: Record) -> Iterator[OffloadStep]:
    """Yield the step of the record; a pasted excerpt may begin inside one, which then has index -1."""
    for _, text in record.lines[:50]:
        if found := _STEP.search(text):
            params = tuple(part.strip(" '\"") for part in found["params"].split(",") if part.strip())
            yield OffloadStep(record, int(found["index"]), found["submodule"], params, int(found["allocated"]))
        elif found := _TAIL.match(text):
            yield OffloadStep(record, -1, "", (), int(found["allocated"]))

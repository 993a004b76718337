"""Modules that SGLang could not import and skipped: harmless, unless the served model is in one of them."""

from __future__ import annotations

import re
from collections.abc import Iterator

from doctor.logs.events.types import ModuleSkipped
from doctor.logs.records import Record

KEYWORDS = (b"Ignore import error when loading",)

_SKIPPED = re.compile(r"Ignore import error when loading (?P<module>[\w.]{1,200}): (?P<reason>.{0,500})")


def parse(record: Record) -> Iterator[ModuleSkipped]:
    """Yield every skipped module with the first line of its reason."""
    for _, text in record.lines[:20]:
        if found := _SKIPPED.search(text):
            yield ModuleSkipped(record, found["module"], found["reason"].strip())

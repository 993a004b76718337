"""argparse's verdict on a launch command: `sglang serve: error: unrecognized arguments: …`."""

from __future__ import annotations

import re
from collections.abc import Iterator

from doctor.logs.events.types import UsageError
from doctor.logs.records import Record

KEYWORDS = (b": error: ",)

_ERROR = re.compile(r"^(?P<program>[\w./ -]{1,80}): error: (?P<message>.{1,20000})$")
_OPTION = re.compile(r"\[(--[a-z][\w-]*)")


def parse(record: Record) -> Iterator[UsageError]:
    """Yield the error line with the flags of the usage text before it."""
    for number, text in record.lines:
        found = _ERROR.match(text)
        if found and (record.kind == "usage" or "sglang" in found["program"] or "launch_server" in found["program"]):
            line = record._replace(lines=((number, text),))
            yield UsageError(line, found["program"], found["message"], tuple(_OPTION.findall(record.text)))

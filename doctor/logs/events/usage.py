"""argparse's verdict on a launch command: `sglang serve: error: unrecognized arguments: …`."""

from __future__ import annotations

import re
from collections.abc import Iterator

from doctor.logs.events.types import UsageError
from doctor.logs.records import Record

KEYWORDS = (b": error: ",)

_ERROR = re.compile(r"^(?P<program>[\w./ -]{1,80}): error: (?P<message>.{1,20000})$")


def parse(record: Record) -> Iterator[UsageError]:
    """Yield the error line; the usage text before it is not kept."""
    for number, text in record.lines:
        found = _ERROR.match(text)
        if (
            (found
            and "sglang" in found["program"] + "launch_server" * ("launch_server" in found["program"]))
            or (found and record.kind == "usage")
        ):
            line = record._replace(lines=((number, text),))
            yield UsageError(line, found["program"], found["message"])

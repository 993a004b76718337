"""Access lines that are not 200."""

from __future__ import annotations

import re
from collections.abc import Iterator

from doctor.logs.events.types import HttpStatus
from doctor.logs.records import Record

KEYWORDS = (b' HTTP/1.1" ', b' HTTP/1.0" ', b' HTTP/2" ')

_ACCESS = re.compile(r'- "(?P<method>[A-Z]{3,8}) (?P<path>\S{1,300}) HTTP/[\d.]+" (?P<status>\d{3})')


def parse(record: Record) -> Iterator[HttpStatus]:
    """Yield the status of the record."""
    if record.kind == "access" and (found := _ACCESS.search(record.message[:600])) and found["status"] != "200":
        yield HttpStatus(record, found["method"], found["path"].partition("?")[0], int(found["status"]))

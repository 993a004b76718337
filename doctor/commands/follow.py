"""`doctor explain --follow`: read a log while it grows, across rotation, and report whenever the answer changes."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from typing import IO

from doctor.diagnosis.explain import Question, diagnose
from doctor.diagnosis.match import Index
from doctor.diagnosis.model import Report
from doctor.diagnosis.observe import Observer
from doctor.errors import DoctorError
from doctor.logs.lines import LineCutter
from doctor.logs.sources import CHUNK, Source

POLL_SECONDS = 0.5
"""How often the file is looked at; also how long a record may stand open before it counts as written."""


def follow(sources: Sequence[Source], index: Index, question: Question, show: Callable[[Report], None]) -> int:
    """Follow one file until Ctrl-C (then the boundary gives 130); raises DoctorError for anything but one plain file."""
    if len(sources) != 1 or sources[0].size is None:
        raise DoctorError(
            "--follow needs exactly one plain file",
            "for a pipe, leave --follow out: doctor explain - reads to its end",
        )
    observer = Observer(index)
    observer.open_file(sources[0].name)
    cutter = LineCutter()
    said: tuple[str, ...] | None = None
    tail = _Tail(sources[0].name)
    while True:
        chunk = tail.read()
        for block in cutter.feed(chunk):
            observer.feed(block)
        if chunk:
            continue
        report = diagnose(index.rules, observer.pause(), question)
        answer = (report.verdict, *(item.rule for item in report.diagnoses[:1]))
        if answer != said:
            said = answer
            show(report)
        time.sleep(POLL_SECONDS)


class _Tail:
    """A file read to its present end, reopened when it is replaced or cut short."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._stream: IO[bytes] = open(path, "rb", buffering=0)  # noqa: SIM115 - open for the life of the program

    def read(self) -> bytes:
        chunk = self._stream.read(CHUNK)
        if not chunk and self._is_replaced():
            self._stream.close()
            self._stream = open(self._path, "rb", buffering=0)  # noqa: SIM115 - as above
            chunk = self._stream.read(CHUNK)
        return chunk

    def _is_replaced(self) -> bool:
        try:
            now = os.stat(self._path)
        except OSError:
            return False
        mine = os.fstat(self._stream.fileno())
        return now.st_ino != mine.st_ino or now.st_size < self._stream.tell()

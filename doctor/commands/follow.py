"""`doctor explain --follow`: read a log while it grows, across rotation, and report whenever the answer changes."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from typing import IO

from doctor.diagnosis.explain import Question, diagnose
from doctor.diagnosis.match import Index
from doctor.diagnosis.model import Report
from doctor.diagnosis.observe import Observer
from doctor.errors import DoctorError
from doctor.logs.lines import LineCutter
from doctor.logs.sources import CHUNK, Source, guess_utf16, is_binary

POLL_SECONDS = 0.5
"""How often the file is looked at; also how long a record may stand open before it counts as written."""


def follow(sources: Sequence[Source], index: Index, question: Question, show: Callable[[Report], None]) -> int:
    """Follow one file until Ctrl-C (exit code 130); raises DoctorError for anything but one plain file."""
    if len(sources) != 1 or sources[0].size is None:
        raise DoctorError(
            "--follow needs exactly one plain file",
            "for a pipe, leave --follow out: doctor explain - reads to its end",
        )
    observer = Observer(index)
    said: tuple[str, ...] | None = None
    for _ in _read_along(sources[0].name, observer):
        report = diagnose(index.rules, observer.pause(), question)
        answer = (report.verdict, *(item.rule for item in report.diagnoses[:1]))
        if answer != said:
            said = answer
            show(report)
    return 0


def _read_along(path: str, observer: Observer) -> Iterator[None]:
    """Feed what is written, across rotation; a new file counts its lines from 1. Yields when there may be news."""
    while True:
        with _open(path) as stream:
            observer.open_file(path)
            yield from _read_until_replaced(path, stream, observer)
            observer.close_file(stream.tell())


def _read_until_replaced(path: str, stream: IO[bytes], observer: Observer) -> Iterator[None]:
    """Yield whenever something came and then nothing for one poll."""
    cutter = LineCutter()
    quiet = 0
    while quiet == 0 or not is_replaced(path, stream):
        chunk = stream.read(CHUNK)
        for block in cutter.feed(chunk):
            observer.feed(block)
        quiet = 0 if chunk else quiet + 1
        if quiet == 2 and stream.tell():
            yield
        if quiet:
            time.sleep(POLL_SECONDS)
    for block in cutter.finish():
        observer.feed(block)


def _open(path: str) -> IO[bytes]:
    """Open a file that may be in the middle of a rotation; refuse what grows as no text does."""
    try:
        stream = open(path, "rb", buffering=0)  # noqa: SIM115 - open until the file is replaced
    except OSError as error:
        raise DoctorError(f"{path}: {error.strerror or error}", "check that it exists and may be read") from error
    head = stream.read(8192)
    if is_binary(head) or guess_utf16(head) or head.startswith((b"\x1f\x8b", b"\x28\xb5\x2f\xfd")):
        stream.close()
        raise DoctorError(f"{path}: only a plain UTF-8 log can be followed", "leave --follow out to read it once")
    stream.seek(0)
    return stream


def is_replaced(path: str, stream: IO[bytes]) -> bool:
    """True when the path names another file by now, or this one was cut short."""
    try:
        now = os.stat(path)
    except OSError:
        return False
    return now.st_ino != os.fstat(stream.fileno()).st_ino or now.st_size < stream.tell()

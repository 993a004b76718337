"""Python tracebacks and bare exception lines, with the chain of causes."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator

from doctor.logs.events.types import ExceptionEvent, Frame, Raised
from doctor.logs.records import Record

KEYWORDS = (
    b"Traceback (most recent call last)",
    b"Error",
    b"Exception",
    b"Interrupt",
    b"SystemExit",
    b"OutOfResources",
    b'File "',
)

_HEADER = "Traceback (most recent call last):"
_FRAME = re.compile(r'File "([^"]{1,500})", line (\d{1,9}), in (\S{1,200})')
_RAISED = re.compile(r"(?P<type>(?:[A-Za-z_]\w*\.)*[A-Za-z_]\w*)(?::\s+(?P<message>.*)|:?\s*)$")
_LOOSE = re.compile(
    r"(?:E\s+)?(?P<type>(?:[A-Za-z_]\w*\.)*(?:Exception|(?:[A-Z]\w*(?:Error|Exception|Interrupt|Exit)|OutOfResources)))"
    r":(?:\s+(?P<message>.*))?$"
)
_INLINE = re.compile(r"(?:^|\s)((?:[A-Za-z_]\w*\.)*(?:[A-Z]\w*(?:Error|Exception|Exit|Interrupt)|OutOfResources)):\s")
_ANNOUNCED = re.compile(r"[A-Z]\w{0,40}(?: \w{1,30}){0,3} hit an exception: (?!Traceback)")
"""What SGLang writes before a traceback; who shortens a log leaves the exception on that line."""

_ADDRESS = re.compile(r"^\[address=[^\]]{1,80}\] ")
"""What Xinference (xoscar) puts between an exception's type and its message."""

_GROUP = re.compile(r"^ {0,8}[|+] ?")
_LINKS = {
    "The above exception was the direct cause of the following exception:": "cause",
    "During handling of the above exception, another exception occurred:": "context",
}
_MESSAGE_LINES = 80
_MESSAGE_CHARS = 20_000
"""Kept of one exception's message: argparse and ninja texts inside messages are longer than anyone reads."""

_FIRST_FRAMES = 20
_LAST_FRAMES = 80
"""Frames kept of one traceback; Python itself folds repeats and shows at most 1,000."""

_LONGEST_CHAIN = 40


def parse(record: Record) -> Iterator[ExceptionEvent]:
    """Yield the record's exceptions as one event, in printed order."""
    if record.kind in ("access", "server_args", "progress"):
        return
    reader = _ChainReader()
    for number, text in record.lines:
        reader.read(number, _GROUP.sub("", text) if text[:1] == " " else text)
    chain = reader.finish()
    if chain:
        yield ExceptionEvent(record, chain)


def _match_loose(text: str) -> re.Match[str] | None:
    announced = _ANNOUNCED.match(text) if " hit an exception: " in text else None
    return _LOOSE.match(text, announced.end() if announced else 0)


class _ChainReader:
    """Read a record line by line; `finish` gives the chain."""

    def __init__(self) -> None:
        self._chain: list[Raised] = []
        self._chars = 0
        self._frames: list[Frame] = []
        self._message: list[str] = []
        self._state = "text"
        self._link = ""
        self._start = 0

    def read(self, number: int, text: str) -> None:
        """Take the next line."""
        stripped = text.strip()
        if _HEADER in text:
            self._open(number, text)
        elif stripped in _LINKS:
            self._end_message()
            self._link, self._state = _LINKS[stripped], "text"
        elif self._state == "frames":
            self._read_frame(number, text)
        elif self._state == "message" and not self._starts_other(text):
            if len(self._message) < _MESSAGE_LINES and self._chars < _MESSAGE_CHARS:
                self._message.append(text[:_MESSAGE_CHARS])
                self._chars += len(text)
        elif found := _match_loose(text):
            self._end_message()
            self._raise(number, found["type"], found["message"] or "")
        elif frame := _match_frame(text):
            self._open(number, "")
            self._add_frame(frame)

    def finish(self) -> tuple[Raised, ...]:
        """Close what is open and give the chain."""
        if self._state == "frames":
            self._add_raised("", "", self._start)
        self._end_message()
        return tuple(self._chain)

    def _open(self, number: int, text: str) -> None:
        if self._state == "frames" and self._frames:
            self._add_raised("", "", self._start)
        self._end_message()
        self._frames, self._state, self._start = [], "frames", number
        inline = text.partition(_HEADER)[2]
        if inline.strip():
            self._read_inline(number, inline)

    def _read_inline(self, number: int, text: str) -> None:
        """Read a traceback that lost its newlines."""
        end = 0
        for found in _FRAME.finditer(text):
            self._add_frame(found)
            end = found.end()
        raised = None
        for found in _INLINE.finditer(text, end):
            raised = found
        if raised:
            self._raise(number, raised[1], text[raised.end() :].strip())

    def _read_frame(self, number: int, text: str) -> None:
        if frame := _FRAME.search(text):
            self._add_frame(frame)
        elif text[:1] not in ("", " ", "\t") and (found := _RAISED.match(text)) and _is_type(found["type"]):
            self._raise(number, found["type"], found["message"] or "")

    def _raise(self, number: int, kind: str, message: str) -> None:
        if message.startswith("[address="):
            message = _ADDRESS.sub("", message)
        self._add_raised(kind, message[:_MESSAGE_CHARS], number)
        self._message, self._frames, self._link, self._state = [], [], "", "message"
        self._chars = len(message)

    def _add_raised(self, kind: str, message: str, number: int) -> None:
        self._chain.append(Raised(kind[:200], message, number, tuple(self._frames), self._link))
        if len(self._chain) > _LONGEST_CHAIN:
            del self._chain[_LONGEST_CHAIN // 2]

    def _add_frame(self, found: re.Match[str]) -> None:
        self._frames.append(Frame(sys.intern(found[1]), int(found[2]), sys.intern(found[3])))
        if len(self._frames) > _FIRST_FRAMES + 2 * _LAST_FRAMES:
            del self._frames[_FIRST_FRAMES:-_LAST_FRAMES]

    def _starts_other(self, text: str) -> bool:
        return _LOOSE.match(text) is not None or _match_frame(text) is not None

    def _end_message(self) -> None:
        if self._message and self._chain:
            last = self._chain[-1]
            message = "\n".join([last.message, *self._message]).rstrip()
            self._chain[-1] = last._replace(message=message)
        self._message = []
        if self._state == "message":
            self._state = "text"


def _match_frame(text: str) -> re.Match[str] | None:
    """Match a frame at the start of a line, also one whose indentation was lost."""
    bare = text.removeprefix("  ")
    return _FRAME.match(bare) if bare.startswith('File "') else None


def _is_type(name: str) -> bool:
    """True for what may be an exception's type: code whose indentation was lost (`raise`, `else:`) is none."""
    last = name.rpartition(".")[2]
    if last[:1].isupper() or last.endswith(("Error", "Exception")):
        return True
    return last != name and last in ("error", "timeout", "gaierror", "herror")

"""Learn what a tool put before every line of a log: line numbers, pod and host names, times, list markers, quotes.

No list of tools is ever complete, but all of them put something of one shape before the time that a record of SGLang
starts with. What has been seen twice is taken off every line that has it, continuation lines included.
"""

from __future__ import annotations

import re
from typing import NamedTuple

_START = re.compile(
    rb"\[20\d\d-\d\d-\d\d[ T]\d\d:\d\d:\d\d|(?P<text>Traceback \(most recent call last\))"
    rb"|(?P<usage>usage: [^\[]{1,80}\[-h\])|  File \""
)
"""What a log line starts with for certain; after words, a traceback's first line is `Scheduler hit an exception: …`."""
_FRAME = b'  File "'

_LONGEST = 200
"""Bytes of a prefix; a CSV export with a host, a service and a container name has 120."""

_MOST_SEEN = 64
_MOST_LEARNED = 16
"""Shapes remembered and shapes used; pods and hosts of one log have a shape each when their names hold no digit."""

_TOKEN = re.compile(rb"\w+|\s+|[^\w\s]")
_DIGIT = re.compile(rb"\d")
_NAME = re.compile(rb"\b[A-Za-z][\w./]*(?:[-=@][\w./]+)*")
_LINE_NUMBER = re.compile(rb"[:-]\d+[:-]\s*$")
_TASK = re.compile(rb"\s{0,3}\d{1,4}:\s$")
"""What `srun --label` writes, which is sure enough to be taken off when seen for the first time."""


class _Shape(NamedTuple):
    """A prefix to take off: its pattern, the quote that a line then ends with, and whether its number is a label."""

    pattern: re.Pattern[bytes]
    quote: bytes
    labelled: bool


class _Sighting(NamedTuple):
    """Where a shape was seen first, and the number in it."""

    line: int
    value: int


class Prefixes:
    """The prefixes of one file, learned as it is read."""

    def __init__(self) -> None:
        self._seen: dict[bytes, _Sighting] = {}
        self.learned: list[_Shape] = []

    def strip(self, number: int, line: bytes) -> tuple[str, bytes]:
        """Take off a prefix that is known by now: (the names in it, which tell processes apart, the rest)."""
        for shape in self.learned:
            found = shape.pattern.match(line)
            if found:
                return _name_process(found[0], labelled=shape.labelled), _unquote(line[found.end() :], shape.quote)
        prefix, once = find_prefix(line)
        if not prefix or len(self.learned) >= _MOST_LEARNED:
            return "", line
        if self._learn(number, prefix, once=once):
            return self.strip(number, line)
        return (_name_process(prefix, labelled=True), line[len(prefix) :]) if _TASK.match(prefix) else ("", line)

    def _learn(self, number: int, prefix: bytes, *, once: bool) -> bool:
        """Remember a prefix; True when its shape was seen before (or `once` is enough) and is from now on taken off."""
        text = _generalise(prefix)
        value = int((re.search(rb"\d{1,18}", prefix) or [b"0"])[0])
        first = self._seen.get(text)
        if first is None and not once:
            if len(self._seen) < _MOST_SEEN:
                self._seen[text] = _Sighting(number, value)
            return False
        counted = 0 < first.value == value - number + first.line if first else not _TASK.match(prefix)
        last = prefix[-1:]
        self.learned.append(_Shape(re.compile(text), last if last in b"\"'" else b"", labelled=not counted))
        return True


def find_prefix(line: bytes) -> tuple[bytes, bool]:
    """Give what stands before the text of a log line, and whether one such line tells enough.

    Empty when nothing does, or when it may belong to the text.
    """
    if line[:2] == b"  " and line.startswith(_FRAME):
        return b"", False
    if not (b"[20" in line or _FRAME in line or b"Traceback (most" in line or b"usage: " in line):
        return b"", False  # quicker than the pattern
    found = _START.search(line, 0, _LONGEST + 40)
    prefix = line[: found.start()] if found else b""
    bare = prefix.strip()
    if not found or not bare:
        return b"", False
    if bare == b'"' and line.rstrip(b", ").endswith(b'"'):
        return prefix, True  # one text of a list in JSON
    bar_of_group = prefix[:1].isspace() and not prefix.strip(b" |+")  # of Python's exception groups
    if bar_of_group or (found["text"] and re.search(rb"[A-Za-z]", prefix)):
        return b"", False
    return prefix, found["usage"] is not None


def _generalise(prefix: bytes) -> bytes:
    """Make the pattern of a prefix: words with digits vary, others do not; grep writes `7:` before hits and `7-` else.

    The last blanks stay as they are, because what follows them may be indentation; a line without text loses them.
    """
    *tokens, last = _TOKEN.findall(prefix.lstrip())
    end = b"(?:%s|$)" % re.escape(last) if last.isspace() else _generalise_token(last)
    return rb"\s*" + b"".join(map(_generalise_token, tokens)) + end


def _generalise_token(token: bytes) -> bytes:
    if token.isspace():
        return rb"\s+"
    if token in (b":", b"-"):
        return b"[:-]"
    return rb"\w+" if _DIGIT.search(token) else re.escape(token)


def _name_process(prefix: bytes, *, labelled: bool) -> str:
    """Name the process of a line: the names in its prefix, else its number when that is a label (a task of srun)."""
    names = _NAME.findall(prefix if labelled else _LINE_NUMBER.sub(b"", prefix))
    if not names and labelled:
        names = re.findall(rb"\d{1,18}", prefix)[:1]
    return b" ".join(names).decode("utf-8", "replace")


def _unquote(text: bytes, quote: bytes) -> bytes:
    """Take off the closing quote of an exported line, and what it escapes."""
    if not quote:
        return text
    end = text.rfind(quote)
    body = (text[:end] if end >= 0 else text).replace(quote + quote, quote)
    return unescape(body)


_ESCAPED = re.compile(rb"\\(?:u([0-9a-fA-F]{4})|(.))")
_MEANINGS = {b"n": b"\n", b"t": b"\t", b"r": b"\r", b"b": b"", b"f": b""}


def unescape(text: bytes) -> bytes:
    """Undo the backslashes of JSON and of Python's repr."""
    return _ESCAPED.sub(_unescape_one, text) if b"\\" in text else text


def _unescape_one(found: re.Match[bytes]) -> bytes:
    if found[1]:
        return chr(int(found[1], 16)).encode("utf-8", "replace")
    return _MEANINGS.get(found[2], found[2])

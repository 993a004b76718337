"""Group lines into records: one log call with its continuation lines, per process, whatever carried the log here."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable
from typing import NamedTuple

from doctor.logs.carriers import Carriers
from doctor.logs.heads import DUMP, starts_record
from doctor.logs.kinds import ECHO, Numbered, is_request_echo
from doctor.logs.wraps import Wraps

_HEAD_LINES = 250
_TAIL_LINES = 450
"""Lines kept of one record, first and last: a C++ and Python traceback of torch 2.14 has 120, a usage text 550."""

_MOST_OPEN = 2 << 20
_MOST_PROCESSES = 64
"""Bytes and processes held open at once; above that every open record counts as whole."""

_MOST_BETWEEN = 50
"""Lines of other processes, or of an export's other fields, between two lines of one record."""

_KEPT_LINES = 3
_KEPT_CHARS = 2000
"""What a record keeps of itself once its events are known: its first lines and its last."""


class Record(NamedTuple):
    """One log call: where it stands, when, which rank wrote it, and its text without prefixes.

    `lines` holds (line number, text) of the message and its continuation lines; `rank` is "TP4", "DP0 TP1" or "";
    `process` tells interleaved containers, pods or Ray actors apart. `kind` is decided before any rule:
    server_args, progress, traceback, usage, kernel, access or other.
    """

    file: int
    lines: tuple[tuple[int, str], ...]
    time: str | None = None
    rank: str = ""
    process: str = ""
    kind: str = "other"

    @property
    def line(self) -> int:
        """Number of the first line."""
        return self.lines[0][0]

    @property
    def message(self) -> str:
        """The first line."""
        return self.lines[0][1]

    @property
    def text(self) -> str:
        """All lines."""
        return "\n".join(text for _, text in self.lines)

    def line_at(self, offset: int) -> tuple[int, str]:
        """Give the (number, text) of the line that holds character `offset` of `text`."""
        for number, text in self.lines:
            if offset <= len(text):
                return number, text
            offset -= len(text) + 1
        return self.lines[-1]

    def shorten(self) -> Record:
        """Give the record with its first lines and its last, none longer than 2,000 characters, to be kept."""
        lines = (*self.lines[:_KEPT_LINES], self.lines[-1]) if len(self.lines) > _KEPT_LINES else self.lines
        if lines is self.lines and all(len(text) <= _KEPT_CHARS for _, text in lines):
            return self
        return self._replace(lines=tuple((number, text[:_KEPT_CHARS]) for number, text in lines))


class RawRecord(NamedTuple):
    """Lines that belong together, not decoded yet (most records are dropped before that)."""

    process: str
    lines: list[Numbered]


_STAMP = b"[20"
_GLUED = re.compile(rb"(?<=.)(?=\[20\d\d[-/]\d\d[-/]\d\d[ T]\d\d:\d\d:\d\d)")
_DUMP_END = re.compile(rb"[)}]\s{0,9}(?=\[20\d\d-\d\d-\d\d[ T]\d\d:\d\d:\d\d)")
"""The dump is one line, and what follows it is somebody else's."""

_BRACKETS = (b"{", b"[")
"""What an export as JSON begins with; it says nothing about how the log's lines are indented."""

_LOG_START = re.compile(rb"\[20\d\d-|Traceback \(most recent|usage: |/\S+\.py:\d+: ")


class RecordReader:
    """Collect lines into records; feed it routed lines in order, then call `finish` once."""

    def __init__(self) -> None:
        self._open: dict[str, list[Numbered]] = {}
        self._last: dict[str, int] = {}
        self._size = 0
        self._indent: bytes | None = None
        self._bare = False
        """No carrier indents or marks the lines so far."""
        self._carriers = Carriers()
        self._wraps = Wraps()
        self._whole: list[RawRecord] = []

    def feed(self, lines: Iterable[Numbered]) -> list[RawRecord]:
        """Give the records that these lines complete."""
        for number, line in lines:
            if (
                line[:3] == _STAMP
                and line.isascii()
                and line.find(_STAMP, 3) < 0
                and b"&" not in line
                and b"\r" not in line
            ):
                self._start("", number, line)  # most lines, by far
            elif line is ECHO:
                self._start("", number, line)
            elif not line and self._is_still_blank(number):
                continue
            elif self._bare and line[:4] == b"    " and line.find(_STAMP) < 0 and b"\r" not in line:
                self._add("", number, line)  # code and frames of a traceback
            else:
                self._feed_carried(number, line)
        return self._take_whole()

    def finish(self) -> list[RawRecord]:
        """Give what is still open at the end of the input."""
        self._close_all()
        return self._take_whole()

    def _take_whole(self) -> list[RawRecord]:
        whole, self._whole = self._whole, []
        return whole

    def _feed_carried(self, number: int, line: bytes) -> None:
        """Take a line that a container, a quote, an export or a paste may have changed."""
        process, parts = self._carriers.strip(number, self._strip_indent(line))
        self._bare = self._indent == b"" and not self._carriers.used
        if self._continues_echo(process, number, line):
            for part in parts[:1]:
                self._add(process, number, part)
            return
        for piece in (piece for part in parts for piece in split_pieces(part)):
            if len(piece) < len(line) and is_request_echo(piece):
                self._start(process, number, ECHO)
                break  # a prompt may quote a time, so nothing after it on this line can be told from it
            self._add(process, number, piece)

    def _continues_echo(self, process: str, number: int, line: bytes) -> bool:
        """True right after a logged request: a time inside the next line is still quoted by the prompt."""
        lines = self._open.get(process)
        follows = lines is not None and lines[0][1] is ECHO and number - self._last[process] <= 1
        return follows and b"\r" not in line

    def _strip_indent(self, line: bytes) -> bytes:
        """Take off the indentation of a log that was pasted into an indented block; its first log line tells."""
        if self._indent is None and line.strip():
            bare = line.lstrip(b" \t")
            if (len(bare) == len(line) and bare not in _BRACKETS) or _LOG_START.match(bare):
                self._indent = line[: len(line) - len(bare)]
        return line.removeprefix(self._indent or b"")

    def _is_still_blank(self, number: int) -> bool:
        """True for a blank line that changes nothing: before any record, and after two others."""
        lines = self._open.get("")
        if lines is None:
            return True
        if number - self._last[""] == 1 and len(lines) > 2 and not lines[-1][1] and not lines[-2][1]:
            self._last[""] = number
            return True
        return False

    def _add(self, process: str, number: int, piece: bytes) -> None:
        lines = self._open.get(process)
        if lines is None and not piece.strip():
            return
        alone = len(self._open) == 1 and not self._carriers.used
        follows = lines is not None and number - self._last[process] <= (1 if alone else _MOST_BETWEEN)
        if lines is None or not follows or starts_record(piece, lines):
            self._start(process, number, piece)
            return
        self._last[process] = number
        self._size += len(piece)
        lines.append((number, piece))
        if len(lines) > _HEAD_LINES + 2 * _TAIL_LINES:
            self._size -= sum(len(line) for _, line in lines[_HEAD_LINES:-_TAIL_LINES])
            del lines[_HEAD_LINES:-_TAIL_LINES]
        if self._size > _MOST_OPEN:
            self._close_all()

    def _start(self, process: str, number: int, piece: bytes) -> None:
        self._close(process)
        if len(self._open) >= _MOST_PROCESSES or self._size > _MOST_OPEN:
            self._close_all()
        self._open[process] = [(number, piece)]
        self._last[process] = number
        self._size += len(piece)

    def _close_all(self) -> None:
        for process in list(self._open):
            self._close(process)

    def _close(self, process: str) -> None:
        lines = self._open.pop(process, None)
        if lines is None:
            return
        del self._last[process]
        first = lines[0][1]
        self._size -= len(first) if len(lines) == 1 else sum(len(line) for _, line in lines)
        if first is not ECHO:
            while len(lines) > 1 and not lines[-1][1].strip():
                lines.pop()
            if len(lines) > 1:
                lines = self._wraps.join(lines)
            elif len(first) > self._wraps.longest:
                self._wraps.widen(first)
            self._whole.append(RawRecord(process, lines))


def split_pieces(line: bytes) -> list[bytes]:
    """Split a line at carriage returns and before every timestamp inside it (pasted logs lose their newlines)."""
    parts = line.split(b"\r") if b"\r" in line else [line]
    if b"[20" not in line[1:]:
        return [part for part in parts if part] if len(parts) > 1 else parts
    return [piece for part in parts if part for piece in _split_glued(part)]


def _split_glued(part: bytes) -> list[bytes]:
    if part.startswith(b"[20") and DUMP.match(part):
        # a dump may quote a time inside a value; only what follows its closing bracket is another record
        end = _DUMP_END.search(part)
        return [part[: end.start() + 1], *_GLUED.split(part[end.end() :])] if end else [part]
    return _GLUED.split(part)


_PARSE = re.compile(
    r"""
    (?:\[(?P<time>20\d\d[-/]\d\d[-/]\d\d[\sT]\d\d:\d\d:\d\d(?:[.,]\d{1,9})?)(?:Z|[+-]\d\d:?\d\d)?
        (?P<tags>(?:\s[^\[\]\s]+(?:\[\d+\])?)*)\]\s?
     | \[(?P<short>\d\d-\d\d\s\d\d:\d\d:\d\d|\d\d:\d\d:\d\d)(?P<tags2>(?:\s[^\]\s]+)*)\]\s?
     | \[(?P<epoch>1\d{9})(?:\.\d{1,9})?(?P<tags4>(?:\s[^\]\s]+)*)\]\s?
     | (?:(?:DEBUG|INFO|WARNING|ERROR|CRITICAL):?\s{1,4})?(?P<iso>20\d\d-\d\d-\d\d[\sT]\d\d:\d\d:\d\d(?:[.,]\d+)?)\S*\s?
       (?:[-|]\s(?:DEBUG|INFO|WARNING|ERROR|CRITICAL)\s{1,5}[-|]\s(?:[\w.:<>-]{1,100}\s-\s)?)?
     | \[gpu=(?P<gpu>\d{1,6})\]\s
     | \[(?P<tags3>(?:DP|PP|ATTN_CP|MOE_DP|TP|EP)\d{1,6}(?:\s[^\]\s]+)*)\]\s
    )?
    """,
    re.VERBOSE,
)
_TAG = re.compile(r"\b(?:(?:DP|PP|ATTN_CP|MOE_DP|TP|EP)\d{1,6}|encode_server|encode_dp_worker\[\d{1,6}\])(?!\S)")
_LONGEST_TAGS = 100


def parse_record(raw: RawRecord, file: int) -> Record:
    """Decode a raw record and take its prefix apart; invalid UTF-8 becomes U+FFFD."""
    first = raw.lines[0][1].decode("utf-8", "replace")
    found = _PARSE.match(first)
    groups = found.groupdict() if found else {}
    tags = next((groups[name] for name in ("tags", "tags2", "tags3", "tags4") if groups.get(name)), "")
    ranks = _TAG.findall(tags[:_LONGEST_TAGS])
    rank = " ".join(ranks) or (f"TP{groups['gpu']}" if groups.get("gpu") else "")
    message = first[found.end() :] if found else first
    rest = ((number, line.decode("utf-8", "replace")) for number, line in raw.lines[1:])
    lines = ((raw.lines[0][0], message), *rest)
    return Record(file, lines, _read_time(groups), rank, raw.process, find_kind(message, lines))


def _read_time(groups: dict[str, str | None]) -> str | None:
    """Give a record's time as SGLang writes it; a day and month, or a time alone, stay what they are."""
    if epoch := groups.get("epoch"):
        return time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(int(epoch)))
    stamp = groups.get("time") or groups.get("iso") or groups.get("short")
    return stamp.replace("T", " ").replace("/", "-") if stamp else None


_DUMP_TEXT = re.compile(DUMP.pattern.decode())
_ACCESS = re.compile(r'(?:INFO:\s+)?[\d.:a-fA-F\[\]]+:\d+ - "(?:GET|POST|PUT|DELETE|HEAD|OPTIONS|PATCH) ')
_KERNEL = re.compile(
    r"\[(?!1\d{9}\.)\s*\d+\.\d{6}\]|\[[A-Z][a-z]{2} [A-Z][a-z]{2} +\d+ [\d:]+ \d{4}\]"
    r"|NVRM: |oom-kill:|Out of memory: Kill|Memory cgroup out of memory"
)


def find_kind(message: str, lines: tuple[tuple[int, str], ...]) -> str:
    """Name the kind of a record from its message, before any rule sees it."""
    if _DUMP_TEXT.match(message):
        return "server_args"
    if _ACCESS.match(message):
        return "access"
    if message.startswith("usage: "):
        return "usage"
    if _KERNEL.match(message):
        return "kernel"
    if any("Traceback (most recent call last)" in text for _, text in lines):
        return "traceback"
    return "progress" if is_progress(message) and len(lines) == 1 else "other"


def is_progress(message: str) -> bool:
    """True for a tqdm bar."""
    return "%|" in message[:200] or ("it/s]" in message[-40:] or "s/it]" in message[-40:])

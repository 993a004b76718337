"""Group lines into records: one log call with its continuation lines, per process, whatever carried the log here."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

from doctor.logs.kinds import ECHO, Numbered, is_request_echo

_HEAD_LINES = 250
_TAIL_LINES = 450
"""Lines kept of one record, first and last: a C++ and Python traceback of torch 2.14 has 120, a usage text 550."""

_MOST_OPEN = 2 << 20
_MOST_PROCESSES = 64
"""Bytes and processes held open at once; above that every open record counts as whole."""

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
_QUOTE = re.compile(rb"(?:> ?)+")
_CONTAINER = re.compile(
    rb"""
    (?P<compose>(?:[\w.-]{0,100}\d\s+|[\w.-]{1,100}\s{2,})\|(?:\s|$))         # docker compose logs, padded names
    | \[(?P<pod>pod/[^\]\s]+)\]\s                                            # kubectl logs --prefix
    | (?P<journal>(?:[A-Z][a-z]{2}\s[\s\d]\d\s\d\d:\d\d:\d\d|20\d\d-\d\d-\d\dT[\d:.+-]+)
        \s[\w.-]+\s[\w./@:-]+?(?:\[\d+\])?:\s)
    | (?P<k8s>20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d[.\d]*(?:Z|[+-]\d\d:?\d\d)\s(?:std(?:out|err)\s[FP]\s)?)   # CRI, docker -t
    | \[(?P<torch>rank\d+)\]:\s?(?!\[[WEIF])                                 # torchrun, excepthook of torch.distributed
    | \((?P<ray>(?:[\w:]+\s)?pid=\d+(?:,\sip=[\d.]+)?)\)\s?                  # Ray
    | \s{0,3}(?P<srun>\d{1,4}):\s(?=\[20)                                    # srun --label
    """,
    re.VERBOSE,
)
_GLUED = re.compile(rb"(?<=.)(?=\[20\d\d-\d\d-\d\d \d\d:\d\d:\d\d)")
_HEAD = re.compile(
    rb"""
    \[20\d\d-\d\d-\d\d\s\d\d:\d\d:\d\d                   # SGLang
    | \[\d\d-\d\d\s\d\d:\d\d:\d\d                        # sglang multimodal_gen
    | \[\d\d:\d\d:\d\d\b                                 # 0.3 and older
    | \[(?:gpu=|DP|PP|ATTN_CP|MOE_DP|TP|EP)\d
    | (?:DEBUG|INFO|WARNING|ERROR|CRITICAL)[:\s]         # uvicorn, logging defaults, vLLM
    | 20\d\d-\d\d-\d\d[\sT]\d\d:\d\d:\d\d                # loguru, logging
    | [IWEF]\d{4}\s\d\d:\d\d:\d\d                        # glog (Mooncake), torch
    | \[[IWEF]\d{3,4}\s                                  # c10
    | \[[A-Z][a-z]{2}\s[A-Z][a-z]{2}\s[\s\d]\d\s\d\d:    # dmesg -T
    | \[\s*\d+\.\d{6}\]\s                                # dmesg
    | usage:\s
    | (?:Decode|Prefill)\sbatch[\[,.\s]                  # time stamps stripped
    | \S+:\d+:\d+\s\[\d+\]\sNCCL\s                       # NCCL
    """,
    re.VERBOSE,
)
_DUMP = re.compile(rb".{0,190}?\bserver_args=(?:ServerArgs\(|\{)")
_DUMP_END = re.compile(rb"[)}]\s{0,9}(?=\[20\d\d-\d\d-\d\d \d\d:\d\d:\d\d)")
"""The dump is one line, and what follows it is somebody else's."""

_LOG_START = re.compile(rb"\[20\d\d-|Traceback \(most recent|usage: |/\S+\.py:\d+: ")

_CHAIN = (b"During handling of the above exception", b"The above exception was the direct cause")


class RecordReader:
    """Collect lines into records; feed it routed lines in order, then call `finish` once."""

    def __init__(self) -> None:
        self._open: dict[str, list[Numbered]] = {}
        self._last: dict[str, int] = {}
        self._size = 0
        self._indent: bytes | None = None
        self._whole: list[RawRecord] = []

    def feed(self, lines: Iterable[Numbered]) -> list[RawRecord]:
        """Give the records that these lines complete."""
        for number, line in lines:
            if line[:3] == _STAMP and line.find(_STAMP, 3) < 0 and b"\r" not in line:
                self._start("", number, line)  # most lines, by far
            elif line is ECHO:
                self._start("", number, line)
            elif not line and self._is_still_blank(number):
                continue
            elif self._indent == b"" and line[:4] == b"    " and line.find(_STAMP) < 0 and b"\r" not in line:
                self._add("", number, line)  # code and frames of a traceback: no carrier indents so far
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
        """Take a line that a container, a quote or a paste may have changed."""
        process, rest = strip_container(self._strip_indent(line))
        for piece in split_pieces(rest):
            if len(piece) < len(line) and is_request_echo(piece):
                self._start(process, number, ECHO)
                break  # a prompt may quote a time, so nothing after it on this line can be told from it
            self._add(process, number, piece)

    def _strip_indent(self, line: bytes) -> bytes:
        """Take off the indentation of a log that was pasted into an indented block; its first log line tells."""
        if self._indent is None and line.strip():
            bare = line.lstrip(b" \t")
            if len(bare) == len(line) or _LOG_START.match(bare):
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
        follows = lines is not None and number - self._last[process] <= (1 if len(self._open) == 1 else 50)
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
            self._whole.append(RawRecord(process, lines))


def strip_container(line: bytes) -> tuple[str, bytes]:
    """Split what docker, kubectl, journald, Ray, srun or a Markdown quote put before the line: (process, line)."""
    if line[:1] == b">":
        line = line[_QUOTE.match(line).end() :]  # type: ignore[union-attr]
    process = ""
    for _ in range(3):
        if line[:1] == b"[" and not line.startswith((b"[pod/", b"[rank")):
            break
        found = _CONTAINER.match(line)
        if found is None:
            break
        name = found[found.lastgroup or 0]
        if found.lastgroup in ("compose", "pod", "ray", "srun", "torch"):
            process = name.decode("utf-8", "replace").strip(" |")
        line = line[found.end() :]
    return process, line


def split_pieces(line: bytes) -> list[bytes]:
    """Split a line at carriage returns and before every timestamp inside it (pasted logs lose their newlines)."""
    parts = line.split(b"\r") if b"\r" in line else [line]
    if b"[20" not in line[1:]:
        return [part for part in parts if part] if len(parts) > 1 else parts
    return [piece for part in parts if part for piece in _split_glued(part)]


def _split_glued(part: bytes) -> list[bytes]:
    if part.startswith(b"[20") and _DUMP.match(part):
        # a dump may quote a time inside a value; only what follows its closing bracket is another record
        end = _DUMP_END.search(part)
        return [part[: end.start() + 1], *_GLUED.split(part[end.end() :])] if end else [part]
    return _GLUED.split(part)


def starts_record(piece: bytes, lines: list[Numbered]) -> bool:
    """True when a line begins a record of its own rather than continuing the open one."""
    if piece[:1] != b" " and _HEAD.match(piece):
        return True
    if lines[0][1] is ECHO:
        return False
    if lines[-1][1].rstrip().endswith((b")", b"}")) and _DUMP.match(lines[0][1]):
        return True
    if b' HTTP/1.1" ' in lines[0][1] and piece[:1] not in (b" ", b"\t", b""):
        return True  # an access line is one line
    if piece[:1] == b" ":
        return _is_warning_end(lines)
    if piece.startswith(b"Traceback (most recent call last)"):
        return not _expects_traceback(lines)
    if piece.startswith((b"Killed", b"Process ", b"Fatal Python error:", b"terminate called")):
        return True
    return _is_warning(piece) or _is_warning_end(lines)


def _expects_traceback(lines: list[Numbered]) -> bool:
    """True when the last lines announce a traceback: a chain text, or a message that ends in a colon."""
    for _, line in reversed(lines[-3:]):
        if line.strip():
            return line.startswith((*_CHAIN, b"[start of")) or line.rstrip().endswith((b":", b"occurred"))
    return False


def _is_warning(piece: bytes) -> bool:
    """True for the first line of `warnings.warn` output: PATH:LINE: SomeWarning: text."""
    at = piece.find(b"Warning: ", 0, 400)
    return at > 0 and re.match(rb"\S+:\d+: \w*$", piece[:at]) is not None


def _is_warning_end(lines: list[Numbered]) -> bool:
    """True when the open record is a `warnings.warn` message whose indented source line has been read."""
    return len(lines) > 1 and lines[-1][1].startswith(b"  ") and _is_warning(lines[0][1])


_PARSE = re.compile(
    r"""
    (?:\[(?P<time>20\d\d-\d\d-\d\d\s\d\d:\d\d:\d\d(?:[.,]\d{1,6})?)(?P<tags>(?:\s[^\[\]\s]+(?:\[\d+\])?)*)\]\s?
     | \[(?P<short>\d\d-\d\d\s\d\d:\d\d:\d\d|\d\d:\d\d:\d\d)(?P<tags2>(?:\s[^\]\s]+)*)\]\s?
     | (?P<iso>20\d\d-\d\d-\d\d[\sT]\d\d:\d\d:\d\d(?:[.,]\d+)?)\S*\s?
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
    time = groups.get("time") or groups.get("iso") or groups.get("short")
    tags = next((groups[name] for name in ("tags", "tags2", "tags3") if groups.get(name)), "")
    ranks = _TAG.findall(tags[:_LONGEST_TAGS])
    rank = " ".join(ranks) or (f"TP{groups['gpu']}" if groups.get("gpu") else "")
    message = first[found.end() :] if found else first
    rest = ((number, line.decode("utf-8", "replace")) for number, line in raw.lines[1:])
    lines = ((raw.lines[0][0], message), *rest)
    return Record(file, lines, time.replace("T", " ") if time else None, rank, raw.process, find_kind(message, lines))


_DUMP_TEXT = re.compile(_DUMP.pattern.decode())
_ACCESS = re.compile(r'(?:INFO:\s+)?[\d.:a-fA-F\[\]]+:\d+ - "(?:GET|POST|PUT|DELETE|HEAD|OPTIONS|PATCH) ')
_KERNEL = re.compile(
    r"\[\s*\d+\.\d{6}\]|\[[A-Z][a-z]{2} [A-Z][a-z]{2} +\d+ [\d:]+ \d{4}\]"
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

"""Find the logs inside a pasted Markdown issue: fenced blocks count, prose outside them does not."""

from __future__ import annotations

import re
from collections.abc import Iterator

from doctor.logs.kinds import ECHO, Numbered

_FENCE = re.compile(rb"(?P<indent>(?:> ?)*\s{0,8})(?:[-*]\s{1,4})?(?P<mark>`{3,}|~{3,})(?P<info>.*)")
_QUOTE = re.compile(rb"(?:> ?)+")
_LOG = re.compile(
    rb"""
    (?:>\ ?){0,20}
    (?: \[20\d\d-
      | \[(?:(?:DP|PP|TP|EP)\d|rank\d{1,6}\]:)
      | Traceback\ \(most\ recent
      | \ \ File\ \"
      | \[\w+\]\ CRITICAL
      | \[(?:start|end)\ of\ libtorchcodec | FFmpeg\ version\ \d{1,2}:
      | (?:\[\s*\d{1,9}\.\d{6}\]\ )?(?:NVRM:\ Xid|Out\ of\ memory:\ Kill|Memory\ cgroup\ out\ of\ memory)
      | (?:(?:\w+\.)*[A-Z]\w*(?:Error|Exception)|Exception):[ ]
      | During\ handling\ of\ the\ above\ exc | The\ above\ exception\ was
      | (?:DEBUG|INFO|WARNING|ERROR|CRITICAL):\s{1,8}\S
      | \[?[WEF]\d{4}\ \d\d:\d\d:\d\d
      | /\S{1,300}:\d{1,6}:\ \w*Warning:[ ]
      | usage:\ \S+\ \[-h\]
      | [\w./\ -]{1,80}:\ error:\ (?:unrecognized|ambiguous|argument\ -|the\ following)
      | Exit\ code:\ -?\d
      | !!!!!!!\ | Fatal\ Python\ error:\ | (?:Current\ t|T)hread\ 0x | terminate\ called[ ]
      | (?:Killed|Aborted|Segmentation\ fault|Bus\ error)(?:\ \(core\ dumped\))?\s*$
      | (?:[$#]\ )?(?:\w+=\S+\ )*(?:\S*python3?\ -m\ sglang|sglang\ serve|docker\ run\ )
    )
    """,
    re.VERBOSE,
)
"""Lines that nobody writes in prose."""

_GLUED = re.compile(rb"\[20\d\d-\d\d-\d\d[ T]\d\d:\d\d:\d\d")
_ECHOED = b"*** "
"""Before the exception that Python's debugger reports."""

_FAR = 4000
"""A record's time behind other text: the paste lost its newlines. Bytes searched for it."""


class FenceFilter:
    """Pass the lines inside fences; outside them only lines that cannot be anything but a log or a launch command.

    A file that is no `.md` is plain until its first fence.
    """

    def __init__(self, name: str) -> None:
        self._markdown = name.endswith((".md", ".markdown"))
        self._fence = b""
        self._indent = b""
        self._kept = False

    def is_needed(self, lines: list[Numbered]) -> bool:
        """True for Markdown, and for lines that may make it so."""
        return self._markdown or any(line[:1] in (b"`", b"~", b"*") for _, line in lines)

    def filter(self, lines: list[Numbered]) -> list[Numbered]:
        """Drop prose and the fences themselves, and the indentation of fences inside lists."""
        return list(self._pass(lines))

    def _pass(self, lines: list[Numbered]) -> Iterator[Numbered]:
        for number, line in lines:
            if line is ECHO:
                yield number, line
            elif self._turn(line):
                self._markdown, self._kept = True, False
            elif self._fence:
                yield number, line[len(self._indent) :] if self._indent and line.startswith(self._indent) else line
            elif self._is_log(bare := _unwrap(line)):
                yield number, bare

    def _turn(self, line: bytes) -> bool:
        """Open or close a fence; True when this line does."""
        found = _FENCE.match(line) if self._markdown or _may_open(line) else None
        if found is None:
            return False
        mark, info = found["mark"], found["info"]
        if not self._fence and b"`" not in info:
            self._fence, self._indent = mark, b"" if b">" in found["indent"] else found["indent"]
            return True
        if self._fence and mark.startswith(self._fence) and not info.strip():
            self._fence = b""
            return True
        return False

    def _is_log(self, line: bytes) -> bool:
        """Keep a log pasted without fences until a line that is neither blank, indented nor a log line."""
        self._kept = not self._markdown or bool(_LOG.match(line) or _GLUED.search(line, 0, _FAR)) or self._goes_on(line)
        return self._kept

    def _goes_on(self, line: bytes) -> bool:
        """True for a blank or an indented line after a log line, also inside a quote."""
        if self._kept and line[:1] == b">":
            line = line[_QUOTE.match(line).end() :]  # type: ignore[union-attr]
        return self._kept and line[:1] in (b"", b" ", b"\t")


def _unwrap(line: bytes) -> bytes:
    """Take off the single backticks around an error that is quoted as inline code."""
    if line.startswith(_ECHOED):
        return line[len(_ECHOED) :] if _LOG.match(line, len(_ECHOED)) else line
    if line[:1] != b"`" or not _LOG.match(line, 1):
        return line
    text = line[1:].rstrip()
    closes = text.endswith(b"`") and text.count(b"`") % 2 == 1
    return text[:-1] if closes else line[1:]


def _may_open(line: bytes) -> bool:
    return line[:3] in (b"```", b"~~~")

"""Find the logs inside a pasted Markdown issue: fenced blocks count, prose outside them does not."""

from __future__ import annotations

import re

from doctor.logs.kinds import ECHO, Numbered

_FENCE = re.compile(rb"^(?:> ?)*\s{0,3}(?:[-*]\s+)?(?:`{3,}|~{3,})")
_LOG = re.compile(
    rb"^(?:> ?)*(?:\[20\d\d-|Traceback \(most recent|  File \"|\[\w+\] CRITICAL|(?:\w+\.)*[A-Z]\w*(?:Error|Exception): |NVRM: Xid"
    rb"|(?:[$#] )?(?:\w+=\S+ )*(?:\S*python3? -m sglang|sglang serve|docker run ))"
)


class FenceFilter:
    """Pass the lines inside fences; outside them only lines that cannot be anything but a log or a launch command.

    A file that is no `.md` is plain until its first fence.
    """

    def __init__(self, name: str) -> None:
        self._markdown = name.endswith((".md", ".markdown"))
        self._inside = False
        self._kept = False

    def is_needed(self, lines: list[Numbered]) -> bool:
        """True for Markdown, and for lines that may make it so."""
        return self._markdown or any(line[:3] in (b"```", b"~~~") for _, line in lines)

    def filter(self, lines: list[Numbered]) -> list[Numbered]:
        """Drop prose and the fences themselves."""
        return [numbered for numbered in lines if self._is_log(numbered[1])]

    def _is_log(self, line: bytes) -> bool:
        if _FENCE.match(line):
            self._markdown = True
            self._inside = not self._inside
            self._kept = False
            return False
        if self._inside or line is ECHO or not self._markdown:
            return True
        # a log pasted without fences goes on until a line that is neither indented nor a log line
        self._kept = bool(_LOG.match(line)) or (self._kept and line[:1] in (b" ", b"\t"))
        return self._kept

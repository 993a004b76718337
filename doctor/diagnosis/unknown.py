"""Explain what no rule knows: the innermost exception, where it was raised, and what to collect."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from doctor.diagnosis.episodes import crashed_after
from doctor.diagnosis.findings import Episode
from doctor.diagnosis.match import Hit
from doctor.logs.events.types import Event, ExceptionEvent, Frame, Raised

_NOT_A_CAUSE = frozenset({
    "EOFError", "KeyboardInterrupt", "SystemExit", "asyncio.exceptions.CancelledError", "BrokenPipeError",
    "ConnectionResetError", "NotImplementedError", "StopIteration", "GeneratorExit",
})  # fmt: skip
"""Exceptions that only pass on what happened elsewhere."""

_FATAL = ("hit an exception", "Exception in run_tp_server", "Initialization failed", "Exception in thread")
_BARE = re.compile(
    r"Traceback \(most recent call last\)|  File \"|Process \S+:$|(?:[A-Za-z_]\w*\.)*[A-Z]\w*(?:Error|Exception|Exit)\b"
)


class Unexplained(NamedTuple):
    """An exception that no rule claims, and the chain it belongs to."""

    event: ExceptionEvent
    raised: Raised

    @property
    def place(self) -> Frame | None:
        """The last frame inside SGLang, else the last frame."""
        inside = [frame for frame in self.raised.frames if "/sglang/" in frame.path]
        frames = inside or list(self.raised.frames)
        return frames[-1] if frames else None


def find_unexplained(
    events: Sequence[Event], episode: Episode, claimed: Sequence[tuple[str, Hit]], *, ready: bool
) -> Unexplained | None:
    """Give the first fatal exception that no finding claims; `claimed` are (role, hit) pairs.

    None on a server that came up: what its log shows then are errors of requests.
    """
    lines = {(hit.record.file, hit.line) for _, hit in claimed}
    noise = {(hit.record.file, hit.record.line) for role, hit in claimed if role == "benign"}
    for event in events:
        place = (event.record.file, event.record.line)
        if not isinstance(event, ExceptionEvent) or place in noise or not episode.holds_record(event.record):
            continue
        if not _is_fatal(event, events, episode, ready=ready):
            continue
        for raised in event.chain:
            if (event.record.file, raised.line) not in lines and raised.type and raised.type not in _NOT_A_CAUSE:
                return Unexplained(event, raised)
    return None


def _is_fatal(event: ExceptionEvent, events: Sequence[Event], episode: Episode, *, ready: bool) -> bool:
    """True for what SGLang calls a failure, for an uncaught exception, and for a logged one that a crash follows."""
    message = event.record.message
    if any(text in message for text in _FATAL):
        return True
    if ready:
        return False
    if _BARE.match(message) or any(_BARE.match(text) for _, text in event.record.lines[1:3]):
        return True
    return crashed_after(events, episode, (event.record.file, event.record.line))

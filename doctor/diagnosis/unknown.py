"""Explain what no rule knows: the innermost exception, where it was raised, and what to collect."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from doctor.diagnosis.findings import Episode
from doctor.diagnosis.match import Hit
from doctor.logs.events.types import Event, ExceptionEvent, Frame, Raised

_NOT_A_CAUSE = frozenset({
    "EOFError", "KeyboardInterrupt", "SystemExit", "asyncio.exceptions.CancelledError", "BrokenPipeError",
    "ConnectionResetError", "NotImplementedError", "StopIteration", "GeneratorExit",
})  # fmt: skip
"""Exceptions that only pass on what happened elsewhere."""

_FATAL = (
    "hit an exception",
    "Exception in run_tp_server",
    "Initialization failed",
    "Process ",
    "Traceback (most recent call last)",
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
    events: Iterable[Event], episode: Episode, claimed: Sequence[Hit], *, ready: bool
) -> Unexplained | None:
    """Give the first fatal exception that no hit claims; None on a server that came up (its tracebacks are requests')."""
    lines = {(hit.record.file, hit.line) for hit in claimed}
    records = {(hit.record.file, hit.record.line) for hit in claimed}
    for event in events:
        if (
            not isinstance(event, ExceptionEvent)
            or not episode.holds_record(event.record)
            or not _is_fatal(event, ready=ready)
        ):
            continue
        for raised in event.chain:
            key = (event.record.file, raised.line)
            if key in lines or not raised.type or raised.type in _NOT_A_CAUSE:
                continue
            if (
                (event.record.file, event.record.line) in records
                and raised is event.chain[-1]
                and len(event.chain) == 1
            ):
                continue
            return Unexplained(event, raised)
    return None


def _is_fatal(event: ExceptionEvent, *, ready: bool) -> bool:
    message = event.record.message
    if "hit an exception" in message or "Exception in run_tp_server" in message:
        return True
    return not ready and (
        message.startswith(_FATAL) or any(raised.frames for raised in event.chain) or len(event.chain[-1].message) > 0
    )

"""Split a log into episodes (one start of the server each), so that the last one is diagnosed and not a mixture."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from doctor.diagnosis.findings import Episode, Position
from doctor.logs.events.types import Event, PhaseMark, ProcessExit, ServerArgs

_END: Position = (1 << 30, 0)


def split_episodes(events: Sequence[Event]) -> list[Episode]:
    """Cut before every `server_args=` dump that follows the end of an earlier start in the same file."""
    cuts: list[Position] = []
    ended: dict[int, bool] = {}
    started: dict[int, bool] = {}
    for event in events:
        file = event.record.file
        if isinstance(event, ServerArgs):
            if started.get(file) and ended.get(file):
                cuts.append((file, event.record.line))
            started[file], ended[file] = True, False
        elif isinstance(event, ProcessExit) or (isinstance(event, PhaseMark) and event.phase == "shutdown"):
            ended[file] = True
    edges = [(0, 0), *cuts, _END]
    return [Episode(begin, end) for begin, end in pairwise(edges)]


def became_ready(events: Sequence[Event], episode: Episode) -> Position | None:
    """Give the position of "fired up and ready to roll" when it is to be believed.

    A server whose port is taken can print it as well, because the other server answers its warm-up request: where the
    HTTP server was started in this log, "Uvicorn running on" must be there too (it is absent with --log-level-http).
    """
    marks = [event for event in events if isinstance(event, PhaseMark) and episode.holds_record(event.record)]
    ready = next((mark for mark in marks if mark.phase == "serving"), None)
    if ready is None or any(mark.edge == "failed" for mark in marks):
        return None
    started = any(mark.phase == "warmup" and mark.edge == "begin" for mark in marks)
    listening = any(mark.phase == "warmup" and mark.edge == "http" for mark in marks)
    return (ready.record.file, ready.record.line) if listening or not started else None


def crashed_after(events: Sequence[Event], episode: Episode, position: Position) -> bool:
    """True when SGLang reports a child's death or kills its tree after a position and nobody asked it to stop."""
    for event in events:
        if not episode.holds_record(event.record) or (event.record.file, event.record.line) <= position:
            continue
        if isinstance(event, PhaseMark) and event.phase == "shutdown" and event.edge != "crash":
            return False
        if isinstance(event, ProcessExit) or (isinstance(event, PhaseMark) and event.edge == "crash"):
            return True
    return False

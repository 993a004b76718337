"""Split a log into episodes (one start of the server each), so that the last one is diagnosed and not a mixture."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from doctor.diagnosis.facts import seconds_of
from doctor.diagnosis.findings import Episode, Position
from doctor.logs.events.types import Event, PhaseMark, ProcessExit, ServerArgs

_END: Position = (1 << 30, 0)
_SKEW = 10.0
"""Seconds that the clocks of two nodes, or the starts of two replicas, may lie apart."""


class _Start(NamedTuple):
    """What tells a new start from another node's or worker's dump: a server starts over on its own port.

    `begun`: its process came past its arguments; `ended`: it said so; `first` and `latest`: when it wrote, in seconds.
    """

    port: object
    process: str
    begun: bool = False
    ended: bool = False
    first: float | None = None
    latest: float | None = None


def split_episodes(events: Sequence[Event]) -> list[Episode]:
    """Cut before every `server_args=` dump that begins another start in the same file.

    It does when the earlier start ended. For servers of one node it also does when the same one (by its port) had begun
    and was killed without a word, and when the log of another one follows: its time lies before that of the lines
    above, or the process above writes nothing any more.
    """
    cuts: list[tuple[Position, bool]] = []
    starts: dict[int, _Start] = {}
    last = {(event.record.file, event.record.process): event.record.line for event in events}
    for event in events:
        file, line, start = event.record.file, event.record.line, starts.get(event.record.file)
        if isinstance(event, ServerArgs):
            if start:
                other = start.process != event.record.process and last[file, start.process] < line
                if start.ended or (_is_alone(event) and _is_another(event, start, other=other)):
                    cuts.append(((file, line), (other and not start.ended) or _ran_meanwhile(event, start)))
            time = seconds_of(event.record.time)
            starts[file] = _Start(event.values.get("port"), event.record.process, first=time, latest=time)
        elif start:
            starts[file] = _follow(start, event)
    edges = [((0, 0), False), *cuts, (_END, False)]
    return [Episode(begin, end, beside=beside) for (begin, beside), (end, _) in pairwise(edges)]


def _follow(start: _Start, event: Event) -> _Start:
    stops = isinstance(event, ProcessExit) or (isinstance(event, PhaseMark) and event.phase == "shutdown")
    begins = isinstance(event, PhaseMark) and event.phase != "args" and event.record.process == start.process
    latest = max((time for time in (start.latest, seconds_of(event.record.time)) if time is not None), default=None)
    return start._replace(ended=start.ended or stops, begun=start.begun or begins, latest=latest)


def _is_another(dump: ServerArgs, start: _Start, *, other: bool) -> bool:
    """True when a dump begins another start; `other`: it is of a process that took the place of the earlier one."""
    same = dump.record.process == start.process and dump.values.get("port") == start.port
    return _goes_back(seconds_of(dump.record.time), start.latest) or (start.begun and (same or other))


def _ran_meanwhile(dump: ServerArgs, start: _Start) -> bool:
    time = seconds_of(dump.record.time)
    return _goes_back(time, start.latest) and not _goes_back(time, start.first)


def _is_alone(dump: ServerArgs) -> bool:
    """True for a server of one node; the nodes of a larger one print a dump each and fail together."""
    return bool(dump.values.get("nnodes", 1) == 1)


def _goes_back(time: float | None, before: float | None) -> bool:
    return time is not None and before is not None and time < before - _SKEW


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

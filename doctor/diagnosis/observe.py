"""Run the stream through records, events and patterns, and keep what diagnosis needs in bounded memory."""

from __future__ import annotations

from typing import NamedTuple

from doctor.diagnosis.match import Hit, Index, Probe, apply_probe
from doctor.logs.events import EventParser
from doctor.logs.events.types import BatchStats, Event, HttpStatus, PhaseMark
from doctor.logs.fences import FenceFilter
from doctor.logs.kinds import Numbered, Router
from doctor.logs.lines import Block
from doctor.logs.records import RawRecord, Record, RecordReader, parse_record

_KEEP = 400
"""Events kept of each kind, first and last: a 64-rank start prints about 300 phase lines."""

_KEEP_HITS = 12
"""Hits kept of each pattern, first and last; the rest are counted."""


class Folded(NamedTuple):
    """Hits of one pattern: those kept, how many there were, and which ranks they came from."""

    hits: tuple[Hit, ...]
    times: int
    ranks: tuple[str, ...]


class Observations(NamedTuple):
    """All that is known of the input once it has been read."""

    events: tuple[Event, ...]
    hits: dict[tuple[int, int], Folded]
    files: tuple[str, ...]
    records: tuple[int, ...]
    sizes: tuple[int, ...]
    cut: int
    stat_count: int
    access_count: int
    last: Record | None
    newest: str | None


class _Keeper:
    """First and last items of a stream, counted."""

    def __init__(self, limit: int) -> None:
        self.first: list[Event] = []
        self.last: list[Event] = []
        self.limit = limit
        self.count = 0

    def add(self, item: Event) -> None:
        self.count += 1
        if len(self.first) < self.limit:
            self.first.append(item)
            return
        self.last.append(item)
        if len(self.last) > 2 * self.limit:
            del self.last[: self.limit]


class _HitKeeper:
    """First and last hits of a pattern, counted, with their ranks."""

    def __init__(self) -> None:
        self.first: list[Hit] = []
        self.last: list[Hit] = []
        self.count = 0
        self.ranks: dict[str, None] = {}

    def add(self, hit: Hit) -> None:
        self.count += 1
        if hit.record.rank and len(self.ranks) < 64:
            self.ranks[hit.record.rank] = None
        if len(self.first) < _KEEP_HITS:
            self.first.append(hit)
            return
        self.last.append(hit)
        if len(self.last) > 2 * _KEEP_HITS:
            del self.last[:_KEEP_HITS]

    def fold(self) -> Folded:
        return Folded((*self.first, *self.last[-_KEEP_HITS:]), self.count, tuple(self.ranks))


class Observer:
    """Feed it blocks of lines, file by file; `finish` gives the observations. `doctor run` feeds the same one live."""

    def __init__(self, index: Index) -> None:
        self._batch = next(parser for parser in index.parsers if parser.name == "batch")
        self._index = index
        self._keepers: dict[type, _Keeper] = {}
        self._order: list[Event] = []
        self._hits: dict[tuple[int, int], _HitKeeper] = {}
        self._files: list[str] = []
        self._records: list[int] = []
        self._sizes: list[int] = []
        self._cut = 0
        self._stats = 0
        self._access = 0
        self._last: Record | None = None
        self._last_raw: RawRecord | None = None
        self._last_line: bytes = b""
        self._phases: dict[str, str] = {}
        self._phase = ""

    def open_file(self, name: str) -> None:
        """Begin a file: line numbers start again, phases do not."""
        self._files.append(name)
        self._records.append(0)
        self._sizes.append(0)
        self._reader = RecordReader()
        self._router = Router()
        self._fences = FenceFilter(name)

    def feed(self, block: Block) -> None:
        """Take the next lines of the open file."""
        self._cut += block.cut
        if not block.lines:
            return
        routed = self._router.route(block)
        self._stats += routed.batches
        self._access += routed.accesses
        self._records[-1] += routed.batches + routed.accesses
        self._last_line = block.lines[-1] or self._last_line
        others = self._fences.filter(routed.others) if self._fences.is_needed(routed.others) else routed.others
        for raw in self._reader.feed(others):
            self._take(raw)
        for numbered in routed.stats:
            self._take_stat(numbered)

    def close_file(self, size: int) -> None:
        """End a file of `size` bytes."""
        for raw in self._reader.finish():
            self._take(raw)
        self._sizes[-1] = size

    def pause(self) -> Observations:
        """Give everything observed so far; records that stand open count as whole."""
        for raw in self._reader.finish():
            self._take(raw)
        return self.finish()

    def finish(self) -> Observations:
        """Give everything observed."""
        events: list[Event] = []
        for keeper in self._keepers.values():
            events.extend((*keeper.first, *keeper.last))
        events.sort(key=lambda event: (event.record.file, event.record.line))
        last = self._last
        if self._last_raw is not None:
            last = parse_record(self._last_raw, len(self._files) - 1)
        return Observations(
            tuple(events),
            {key: keeper.fold() for key, keeper in self._hits.items()},
            tuple(self._files),
            tuple(self._records),
            tuple(self._sizes),
            self._cut,
            self._stats,
            self._access,
            last,
            self._find_newest(),
        )

    def _find_newest(self) -> str | None:
        """The time of the very last line, whatever its kind."""
        if not self._last_line:
            return None
        raw = RawRecord("", [(0, self._last_line[:400])])
        return parse_record(raw, 0).time

    def _take(self, raw: RawRecord) -> None:
        self._records[-1] += 1
        self._last_raw = raw
        text = raw.lines[0][1] if len(raw.lines) == 1 else b"\n".join(line for _, line in raw.lines)
        owners = self._index.find_owners(text)
        if not owners:
            return
        record = parse_record(raw, len(self._files) - 1)
        events = [event for owner in owners if isinstance(owner, EventParser) for event in owner.parse(record)]
        for event in events:
            self._keep(event)
        phase = self._phases.get(record.rank or record.process, self._phase) or "unknown"
        for owner in owners:
            if isinstance(owner, Probe):
                for hit in apply_probe(owner, record, phase, events):
                    self._hits.setdefault(owner.key, _HitKeeper()).add(hit)

    def _take_stat(self, numbered: Numbered) -> None:
        record = parse_record(RawRecord("", [numbered]), len(self._files) - 1)
        for event in self._batch.parse(record):
            self._keep(event)

    def _keep(self, event: Event) -> None:
        if isinstance(event, PhaseMark) and event.edge != "crash":
            self._phase = self._phases[event.record.rank or event.record.process] = following_phase(event)
        limit = 2000 if isinstance(event, BatchStats | HttpStatus) else _KEEP
        self._keepers.setdefault(type(event), _Keeper(limit)).add(event)


def following_phase(mark: PhaseMark) -> str:
    """Name the phase that the lines after a mark belong to."""
    following = {
        "args": "import",
        "dist-init": "load",
        "load": "kv-pool",
        "kv-pool": "capture",
        "capture": "warmup",
    }
    return following[mark.phase] if mark.edge == "end" and mark.phase in following else mark.phase

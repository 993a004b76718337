"""Run the stream through records, events and patterns, and keep what diagnosis needs in bounded memory."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from doctor.diagnosis.match import Hit, Index, Probe, apply_probe
from doctor.logs.carriers import strip_container
from doctor.logs.events import EventParser
from doctor.logs.events.types import BatchStats, Event, HttpStatus, PhaseMark, ServerArgs, UsageError
from doctor.logs.fences import FenceFilter
from doctor.logs.kinds import Routed, Router
from doctor.logs.lines import Block
from doctor.logs.records import RawRecord, Record, RecordReader, parse_record

_KEEP = 400
"""Events kept of each kind, first and last: a 64-rank start prints about 300 phase lines."""

_KEEP_RARE = 16
"""Of dumps and usage texts, which are large: only the last starts of a server are looked at."""

_KEEP_CHARS = 2_000_000
"""Text of the first and of the last events kept of each kind, whatever their number."""

_MOST_PHASES = 4096
"""Ranks and processes whose phase is followed."""

_KEEP_HITS = 12
"""Hits kept of each pattern, first and last; the rest are counted."""


_OFTEN = 200
"""Hits of noise and context after which more of the same are only counted."""


_KEEP_TEXT = 2000
"""Characters kept of a hit's line and of each capture."""

_LIMITS: dict[type, int] = {BatchStats: 2000, HttpStatus: 2000, ServerArgs: _KEEP_RARE, UsageError: _KEEP_RARE}


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
    """First and last items of a stream, bounded in number and in text."""

    def __init__(self, limit: int) -> None:
        self.first: list[Event] = []
        self.last: list[Event] = []
        self._limit = limit
        self._full = False
        self._chars = 0

    def add(self, item: Event, chars: int) -> None:
        self._chars += chars
        if not self._full and len(self.first) < self._limit and self._chars <= _KEEP_CHARS:
            self.first.append(item)
            return
        if not self._full:
            self._full, self._chars = True, chars
        self.last.append(item)
        if len(self.last) > 2 * self._limit or self._chars > _KEEP_CHARS:
            del self.last[: (len(self.last) + 1) // 2]
            self._chars //= 2


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
        self._hits: dict[tuple[int, int], _HitKeeper] = {}
        self._sampled: list[Event] = []
        self._router = Router()
        self._files: list[str] = []
        self._records: list[int] = []
        self._sizes: list[int] = []
        self._cut = 0
        self._stats = 0
        self._access = 0
        self._last: Record | None = None
        self._last_raw: RawRecord | None = None
        self._last_text = b""
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
        if block.text and not block.text.isspace():
            self._last_text = block.text
        for routed in self._router.route(block):
            self._take_routed(routed)

    def _take_routed(self, routed: Routed) -> None:
        self._stats += routed.batches
        self._access += routed.accesses
        self._records[-1] += routed.batches + routed.accesses
        others = self._fences.filter(routed.others) if self._fences.is_needed(routed.others) else routed.others
        for raw in self._reader.feed(others):
            self._take(raw)

    def close_file(self, size: int) -> None:
        """End a file of `size` bytes."""
        for raw in self._reader.finish():
            self._take(raw)
        self._sizes[-1] = size
        self._sampled.extend(self._list_batches())
        self._router = Router()

    def pause(self) -> Observations:
        """Give everything observed so far; records that stand open count as whole."""
        for raw in self._reader.finish():
            self._take(raw)
        return self.finish()

    def finish(self) -> Observations:
        """Give everything observed."""
        events: list[Event] = [*self._sampled, *self._list_batches()]
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
        line = self._last_text.rstrip().rpartition(b"\n")[2]
        if not line:
            return None
        process, bare = strip_container(line[:400])
        raw = RawRecord(process, [(0, bare)])
        return parse_record(raw, 0).time

    def _take(self, raw: RawRecord) -> None:
        self._records[-1] += 1
        self._last_raw = raw
        text = raw.lines[0][1] if len(raw.lines) == 1 else b"\n".join(line for _, line in raw.lines)
        owners = self._index.find_owners(text)
        asked = [owner for owner in owners if not self._only_counts(owner, text)] if owners else owners
        if asked:
            self._ask(asked, raw, text)

    def _ask(self, owners: list[Probe | EventParser], raw: RawRecord, text: bytes) -> None:
        """Take one record apart for the parsers and probes that asked for it."""
        record = parse_record(raw, len(self._files) - 1)
        events = [event for owner in owners if isinstance(owner, EventParser) for event in owner.parse(record)]
        kept = record.shorten()
        for event in events:
            own = event.record is record
            shortened = kept if own else event.record.shorten()
            self._keep(event._replace(record=shortened), len(text) if own else len(event.record.text))
        phase = self._phases.get(record.rank or record.process, self._phase) or "unknown"
        for owner in owners:
            if isinstance(owner, Probe):
                for hit in apply_probe(owner, record, phase, events):
                    self._hits.setdefault(owner.key, _HitKeeper()).add(
                        shorten_hit(hit, kept if hit.record is record else hit.record)
                    )

    def _only_counts(self, owner: Probe | EventParser, text: bytes) -> bool:
        """Count one more hit of a quiet pattern that has been seen often, without taking the record apart."""
        if isinstance(owner, EventParser) or not owner.quiet:
            return False
        keeper = self._hits.get(owner.key)
        if (
            keeper is None
            or keeper.count < _OFTEN
            or not all(keyword.encode() in text for keyword in owner.match.keywords)
        ):
            return False
        keeper.count += 1
        return True

    def _list_batches(self) -> Iterator[Event]:
        """Parse the batch lines that were kept of the open file."""
        for numbered in self._router.batches.kept:
            yield from self._batch.parse(parse_record(RawRecord("", [numbered]), len(self._files) - 1))

    def _keep(self, event: Event, chars: int) -> None:
        if isinstance(event, PhaseMark) and event.edge != "crash":
            self._phase = following_phase(event)
            if len(self._phases) < _MOST_PHASES:
                self._phases[event.record.rank or event.record.process] = self._phase
        keeper = self._keepers.get(type(event))
        if keeper is None:
            keeper = self._keepers[type(event)] = _Keeper(_LIMITS.get(type(event), _KEEP))
        keeper.add(event, chars)


def shorten_hit(hit: Hit, record: Record) -> Hit:
    """Give the hit with what is kept of its record."""
    if record is hit.record and len(hit.text) <= _KEEP_TEXT:
        return hit
    captures = {name: value[:_KEEP_TEXT] for name, value in hit.captures.items()}
    return hit._replace(record=record, text=hit.text[:_KEEP_TEXT], captures=captures)


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

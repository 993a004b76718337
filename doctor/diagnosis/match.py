"""Find the rules and event parsers that a record concerns: one keyword automaton first, regular expressions last."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any, NamedTuple

from doctor.diagnosis.rule import Condition, Match, Rule
from doctor.logs.events import EventParser, load_parsers
from doctor.logs.events.types import ExceptionEvent, UsageError
from doctor.logs.records import Record

_WINDOW = 1 << 16
"""Bytes searched at once for keywords: every match takes memory, and a line may hold one keyword a million times."""

PATTERN_SECONDS = 0.2
"""Time for one pattern on one record; a pathological pair ends there instead of hanging (`regex` checks it itself)."""

_MOST_TIMEOUTS = 5
_NOTHING: frozenset[int] = frozenset()


class Hit(NamedTuple):
    """A pattern found: in which record and phase, where, with its captures; `depth` counts from the first raised."""

    record: Record
    phase: str
    line: int
    text: str
    captures: dict[str, str]
    depth: int = 0
    raised: int = 0


class Probe(NamedTuple):
    """One pattern of one rule: a match (`condition` None) or a condition; `key` is (rule index, part index).

    `quiet`: noise or context, of which the first hits tell everything and the rest are only counted.
    """

    key: tuple[int, int]
    match: Match
    condition: Condition | None
    quiet: bool


class Index:
    """All keywords of rules and event parsers in one automaton, so that a record is read once."""

    def __init__(self, rules: Sequence[Rule]) -> None:
        self.rules = tuple(rules)
        self.parsers = load_parsers()
        probes = [probe for number, rule in enumerate(rules) for probe in list_probes(number, rule)]
        self._owners: list[list[Probe | EventParser]] = []
        self._numbers: dict[bytes, int] = {}
        for parser in self.parsers:
            for keyword in parser.keywords:
                self._own(keyword, parser)
        for probe in probes:
            if probe.match.keywords:
                self._own(max(probe.match.keywords, key=len).encode(), probe)
        self._find = build_finder(list(self._numbers))

    def _own(self, keyword: bytes, owner: Probe | EventParser) -> None:
        number = self._numbers.setdefault(keyword, len(self._owners))
        if number == len(self._owners):
            self._owners.append([])
        self._owners[number].append(owner)

    def find_owners(self, text: bytes) -> list[Probe | EventParser]:
        """Give the probes and parsers whose keyword occurs in the text."""
        found = self._find(text)
        if not found:
            return []
        owners: dict[int, Probe | EventParser] = {}
        for number in found:
            for owner in self._owners[number]:
                owners[id(owner)] = owner
        return list(owners.values())


def build_finder(keywords: list[bytes]) -> Callable[[bytes], Collection[int]]:
    """Make the function that lists which keywords occur in a text (Aho-Corasick: more keywords cost no more time)."""
    from ahocorasick_rs import BytesAhoCorasick, Implementation

    automaton = BytesAhoCorasick(keywords, implementation=Implementation.ContiguousNFA)
    find = automaton.find_matches_as_indexes
    overlap = max(map(len, keywords), default=1) - 1

    def find_all(text: bytes) -> Collection[int]:
        if len(text) <= _WINDOW:
            found = find(text, overlapping=True)
            return {number for number, _, _ in found} if found else _NOTHING
        windows = (text[start : start + _WINDOW + overlap] for start in range(0, len(text), _WINDOW))
        return {number for window in windows for number, _, _ in find(window, overlapping=True)}

    return find_all


def list_probes(number: int, rule: Rule) -> Iterator[Probe]:
    """Yield a rule's patterns: its matches, then its conditions."""
    part = 0
    for match in rule.matches:
        if match.event != "facts":
            yield Probe((number, part), match, None, rule.role in ("benign", "context") and match.event == "line")
        part += 1
    for condition in rule.conditions:
        if condition.keywords:
            yield Probe((number, part), Match("line", condition.keywords, condition.pattern), condition, quiet=False)
        part += 1


_compiled: dict[str, Any] = {}
_timeouts: dict[str, int] = {}


def search(pattern: str, text: str) -> Any:
    """Search with a time limit, compiling when first needed.

    A pattern that runs out of time finds nothing, and after five times it is given up.
    """
    import regex

    compiled = _compiled.get(pattern)
    if compiled is None:
        compiled = _compiled[pattern] = regex.compile(pattern, regex.MULTILINE)
    if _timeouts.get(pattern, 0) >= _MOST_TIMEOUTS:
        return None
    try:
        return compiled.search(text, timeout=PATTERN_SECONDS)
    except TimeoutError:
        _timeouts[pattern] = _timeouts.get(pattern, 0) + 1
        return None


_TEXT_KINDS = ("traceback", "other", "usage", "kernel")


def apply_probe(probe: Probe, record: Record, phase: str, events: Sequence[object]) -> Iterator[Hit]:
    """Yield the hits of one pattern in a record (events: those parsed from it)."""
    match = probe.match
    if match.phase and phase not in match.phase:
        return
    if match.event == "exception":
        yield from _search_exceptions(match, record, phase, events)
    elif match.event == "usage":
        for event in events:
            if isinstance(event, UsageError):
                yield from _search_text(match, event.record, event.message, phase)
    elif record.kind in _TEXT_KINDS and (match.event == "line" or record.kind == "kernel"):
        yield from _search_text(match, record, record.text, phase)


def _search_text(match: Match, record: Record, text: str, phase: str) -> Iterator[Hit]:
    if not all(keyword in text for keyword in match.keywords):
        return
    if match.frame and not search(match.frame, text):
        return
    if not match.pattern:
        offset = text.find(match.keywords[0])
        yield Hit(record, phase, *record.line_at(offset), {})
        return
    found = search(match.pattern, text)
    if found:
        number, line = record.line_at(found.start())
        yield Hit(record, phase, number, line, _captures(found))


def _search_exceptions(match: Match, record: Record, phase: str, events: Sequence[object]) -> Iterator[Hit]:
    for event in events:
        if not isinstance(event, ExceptionEvent):
            continue
        for depth, raised in enumerate(event.chain):
            text = f"{raised.type}: {raised.message}"
            if not all(keyword in text for keyword in match.keywords):
                continue
            if match.frame and not search(
                match.frame, "\n".join(f"{frame.path} {frame.function}" for frame in raised.frames)
            ):
                continue
            found = search(match.pattern, text) if match.pattern else None
            if found or not match.pattern:
                line = text.partition("\n")[0]
                yield Hit(
                    record,
                    phase,
                    raised.line,
                    line,
                    _captures(found) if found else {},
                    depth,
                    len(event.chain),
                )


def _captures(found: Any) -> dict[str, str]:
    return {name: value for name, value in found.groupdict().items() if value is not None}

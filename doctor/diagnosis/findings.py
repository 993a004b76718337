"""Decide which rules hold: hits that satisfy their conditions and `when`, with the facts they captured."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from doctor.diagnosis.expressions import holds
from doctor.diagnosis.facts import Facts, seconds_of
from doctor.diagnosis.match import Hit
from doctor.diagnosis.observe import Folded, Observations
from doctor.diagnosis.rule import Condition, Match, Rule
from doctor.diagnosis.versions import is_within
from doctor.logs.records import Record

Position = tuple[int, int]


class Finding(NamedTuple):
    """A rule that holds: its hits in order, how many there were, the ranks, and the facts with its captures.

    `match` is the one of the rule's matches that the first hit belongs to.
    """

    rule: Rule
    match: Match
    hits: tuple[Hit, ...]
    times: int
    ranks: tuple[str, ...]
    facts: Facts

    @property
    def first(self) -> Hit:
        """The earliest hit."""
        return self.hits[0]


class Episode(NamedTuple):
    """A stretch of the log from one start of the server to the next; positions are (file, line).

    `beside`: it is the log of another server that ran at the time of the stretch before it, not a later start.
    """

    begin: Position
    end: Position
    beside: bool = False

    def holds_record(self, record: Record) -> bool:
        """True when the record was written in this episode."""
        return self.begin <= (record.file, record.line) < self.end


def find_findings(rules: Sequence[Rule], observations: Observations, facts: Facts, episode: Episode) -> list[Finding]:
    """List the rules that hold in an episode, in order of their first hit."""
    version = facts.get("sglang.version")
    findings = []
    for number, rule in enumerate(rules):
        if is_within(version, rule.applies):
            found = _judge_rule(number, rule, observations, facts, episode)
            if found:
                findings.append(found)
    findings.sort(key=lambda finding: order_of(finding.first))
    return findings


def order_of(hit: Hit) -> tuple[int, int, int]:
    """Sort key of a hit: where it stands, then how far inside a chain of exceptions."""
    return hit.record.file, hit.line, hit.depth


def _judge_rule(number: int, rule: Rule, observations: Observations, facts: Facts, episode: Episode) -> Finding | None:
    conditions = [
        (condition, _fold(observations, (number, len(rule.matches) + part), episode))
        for part, condition in enumerate(rule.conditions)
    ]
    hits: list[_Judged] = []
    count = 0
    ranks: dict[str, None] = {}
    for part, match in enumerate(rule.matches):
        if match.event == "facts":
            hits.extend(_judge_facts(rule, match, facts, conditions))
            continue
        folded = _fold(observations, (number, part), episode)
        passed = list(_judge_hits(rule, match, folded, facts, conditions))
        hits.extend(passed)
        if passed:
            count += folded.times if len(passed) == len(folded.hits) else len(passed)
            ranks.update(
                dict.fromkeys((*(one.hit.record.rank for one in passed if one.hit.record.rank), *folded.ranks))
            )
    if not hits:
        return None
    hits.sort(key=lambda one: order_of(one.hit))
    first = hits[0]
    return Finding(rule, first.match, tuple(one.hit for one in hits), max(count, 1), tuple(ranks), first.facts)


class _Judged(NamedTuple):
    """A hit that satisfies everything, the match it belongs to, and the facts with its captures."""

    hit: Hit
    match: Match
    facts: Facts


def _fold(observations: Observations, key: tuple[int, int], episode: Episode) -> Folded:
    """Give the hits of a pattern inside an episode; when some lie outside it, only the kept ones can be counted."""
    folded = observations.hits.get(key)
    if folded is None:
        return Folded((), 0, ())
    inside = tuple(hit for hit in folded.hits if episode.holds_record(hit.record))
    return folded if len(inside) == len(folded.hits) else Folded(inside, len(inside), folded.ranks)


def _judge_hits(
    rule: Rule, match: Match, folded: Folded, facts: Facts, conditions: list[tuple[Condition, Folded]]
) -> Iterator[_Judged]:
    for hit in folded.hits:
        if all(_satisfies(condition, others, hit, folded) for condition, others in conditions):
            values: dict[str, Any] = {name: read_value(text) for name, text in hit.captures.items()}
            known = facts.with_values({"phase": hit.phase, "rank": hit.record.rank, "count": folded.times, **values})
            if holds(rule.when, known):
                yield _Judged(hit, match, known)


def _judge_facts(
    rule: Rule, match: Match, facts: Facts, conditions: list[tuple[Condition, Folded]]
) -> Iterator[_Judged]:
    if not rule.when or not holds(rule.when, facts):
        return
    records = [record for name in match.evidence if (record := facts.source(name)) is not None]
    hits = tuple(Hit(record, "unknown", *record.lines[-1], {}) for record in records) or (_no_line(),)
    if all(_satisfies(condition, others, hits[0], Folded(hits, 1, ())) for condition, others in conditions):
        for hit in hits:
            yield _Judged(hit, match, facts)


def _no_line() -> Hit:
    """A hit for facts that no line shows, such as a response given on the command line."""
    return Hit(Record(0, ((0, ""),)), "unknown", 0, "", {})


def _satisfies(condition: Condition, others: Folded, hit: Hit, own: Folded) -> bool:
    """Judge one condition on a hit; `own` are all hits of the match, `others` those of the condition's pattern."""
    if condition.kind == "none":
        return not others.hits
    if condition.kind == "count":
        return _count_own(condition, hit, own) >= condition.at_least
    if condition.kind == "absent-after":
        return not any(order_of(other) > order_of(hit) and _is_same(condition, hit, other) for other in others.hits)
    if condition.kind == "repeat-without-progress":
        since = max((order_of(other) for other in others.hits), default=(0, 0, 0))
        return own.times >= condition.at_least and sum(order_of(one) > since for one in own.hits) >= min(
            condition.at_least, len(own.hits)
        )
    near = [other for other in others.hits if _is_same(condition, hit, other) and _is_close(condition, hit, other)]
    if condition.kind == "sequence":
        near = [other for other in near if order_of(other) < order_of(hit)]
    return len(near) >= condition.at_least


def _count_own(condition: Condition, hit: Hit, own: Folded) -> int:
    """Count the match's hits: all of them, or those within the condition's bounds of this one (itself included)."""
    if not (condition.within_lines or condition.within_seconds or condition.same):
        return own.times
    return sum(_is_same(condition, hit, other) and _is_close(condition, hit, other) for other in own.hits)


def _is_same(condition: Condition, one: Hit, other: Hit) -> bool:
    if condition.same == "rank":
        return one.record.rank == other.record.rank
    return condition.same != "process" or one.record.process == other.record.process


def _is_close(condition: Condition, one: Hit, other: Hit) -> bool:
    if condition.within_lines and (
        one.record.file != other.record.file or abs(one.line - other.line) > condition.within_lines
    ):
        return False
    begin, end = seconds_of(one.record.time), seconds_of(other.record.time)
    return not condition.within_seconds or begin is None or end is None or abs(begin - end) <= condition.within_seconds


def read_value(text: str) -> str | int | float:
    """Read a capture as a number when it is one."""
    try:
        return int(text)
    except ValueError:
        pass
    try:
        return float(text) if text[:1].isdigit() or text[:1] == "-" else text
    except ValueError:
        return text

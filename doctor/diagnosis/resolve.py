"""Root against cascade: which finding is the cause, which are its consequences, which do not matter."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import NamedTuple

from doctor.diagnosis.episodes import became_ready, crashed_after
from doctor.diagnosis.facts import seconds_of
from doctor.diagnosis.findings import Episode, Finding, order_of
from doctor.diagnosis.match import Hit
from doctor.diagnosis.observe import Observations
from doctor.logs.events.types import Event

_ORDER = {"root": 0, "alternative": 1, "consequence": 2, "context": 3, "benign": 4}


class Judged(NamedTuple):
    """A finding with the role it plays in this log."""

    role: str
    finding: Finding


def resolve(findings: Sequence[Finding], observations: Observations, episode: Episode) -> list[Judged]:
    """Give every finding its role; the cause comes first, then its alternatives, consequences, context and noise."""
    ready = became_ready(observations.events, episode)
    judged = []
    roots = []
    for finding in findings:
        role = finding.rule.role
        if role != "root":
            judged.append(Judged({"cascade": "consequence", "confirmation": "context"}.get(role, role), finding))
        elif ready and is_recovered(finding, ready, observations, episode):
            judged.append(Judged("context", finding))
        else:
            roots.append(finding)
    judged.extend(_rank_roots(roots, Clock(observations.events)))
    judged.sort(key=lambda item: (_ORDER[item.role], order_of(item.finding.first)))
    return judged


def is_recovered(finding: Finding, ready: tuple[int, int], observations: Observations, episode: Episode) -> bool:
    """True when the server became ready after the finding and did not crash in between."""
    last = finding.hits[-1]  # facts are shown by several lines, and only the last one says when they held
    position = (last.record.file, last.line)
    if last.line == 0 or position > ready:
        return False
    return not crashed_after(observations.events, episode, position) or crashed_after(
        observations.events, episode, ready
    )


def _rank_roots(found: list[Finding], clock: Clock) -> list[Judged]:
    roots = [finding for finding in found if not _is_told_better(finding, found)]
    if not roots:
        return []
    explained = {rule_id for finding in roots for rule_id in finding.rule.explains if rule_id != finding.rule.id}
    candidates = [finding for finding in roots if finding.rule.id not in explained] or roots
    primary = min(candidates, key=lambda finding: (clock.time_of(finding.first), *_precedence(finding)))
    shown = [finding for finding in roots if finding is primary or not _is_repeated(primary, finding)]
    return [Judged(_role_beside(primary, finding, explained), finding) for finding in shown]


class Clock:
    """Tells when a line was written: by its own time, else by the last one before it in the same file."""

    def __init__(self, events: Sequence[Event]) -> None:
        self._times: dict[int, list[tuple[int, float]]] = {}
        for event in events:
            time = seconds_of(event.record.time)
            if time is not None:
                self._times.setdefault(event.record.file, []).append((event.record.line, time))

    def time_of(self, hit: Hit) -> float:
        """Seconds that order hits of several files; without any time in its file (a kernel log) a hit comes last."""
        own = seconds_of(hit.record.time)
        if own is not None:
            return own
        times = self._times.get(hit.record.file)
        if not times:
            return 0.0 if not self._times else float("inf")
        before = bisect_right(times, (hit.record.line, float("inf")))
        return times[max(0, before - 1)][1]


def _is_told_better(finding: Finding, roots: Sequence[Finding]) -> bool:
    """True for a general rule about a record in which a more specific one found its cause."""
    return finding.rule.general and any(
        not other.rule.general and place_of(other) == place_of(finding) for other in roots
    )


def place_of(finding: Finding) -> tuple[int, int]:
    """Give (file, line) of the record that shows the finding first."""
    return finding.first.record.file, finding.first.record.line


def _is_repeated(primary: Finding, finding: Finding) -> bool:
    """True for a more general rule about the very line that the primary explains: it would say nothing new."""
    same = (finding.first.record.file, finding.first.line) == (primary.first.record.file, primary.first.line)
    return same and finding.rule.id in primary.rule.explains


def _precedence(finding: Finding) -> tuple[int, int, int, int, str]:
    """Earliest in place; inside one chain of exceptions the first raised; then the more specific rule."""
    hit, match = finding.first, finding.match
    specific = len(match.keywords) + bool(match.phase) + bool(match.frame)
    return hit.record.file, hit.record.line, hit.depth, -specific - 2 * bool(finding.rule.when), finding.rule.id


def _role_beside(primary: Finding, finding: Finding, explained: set[str]) -> str:
    if finding is primary:
        return "root"
    if finding.rule.id in explained:
        return "consequence"
    same = place_of(finding) == place_of(primary)
    return "alternative" if same or primary.rule.confidence != "confirmed" else "consequence"

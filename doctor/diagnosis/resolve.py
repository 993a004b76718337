"""Root against cascade: which finding is the cause, which are its consequences, which do not matter."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from doctor.diagnosis.episodes import became_ready, crashed_after
from doctor.diagnosis.facts import seconds_of
from doctor.diagnosis.findings import Episode, Finding, order_of
from doctor.diagnosis.observe import Observations

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
    judged.extend(_rank_roots(roots))
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


def _rank_roots(roots: list[Finding]) -> list[Judged]:
    if not roots:
        return []
    explained = {rule_id for finding in roots for rule_id in finding.rule.explains if rule_id != finding.rule.id}
    candidates = [finding for finding in roots if finding.rule.id not in explained] or roots
    primary = min(candidates, key=_precedence)
    shown = [finding for finding in roots if not _is_repeated(primary, finding)]
    return [Judged(_role_beside(primary, finding, explained), finding) for finding in shown]


def _is_repeated(primary: Finding, finding: Finding) -> bool:
    """True for a more general rule about the very line that the primary explains: it would say nothing new."""
    same = (finding.first.record.file, finding.first.line) == (primary.first.record.file, primary.first.line)
    return same and finding.rule.id in primary.rule.explains


def _precedence(finding: Finding) -> tuple[float, int, int, int, int, str]:
    """Earliest in time, then in place; inside one chain of exceptions the first raised; then the more specific rule."""
    hit = finding.first
    specific = sum(len(match.keywords) + bool(match.phase) + bool(match.frame) for match in finding.rule.matches[:1])
    time = seconds_of(hit.record.time)
    return (
        time or 0.0,
        hit.record.file,
        hit.record.line,
        hit.depth,
        -specific - 2 * bool(finding.rule.when),
        finding.rule.id,
    )


def _role_beside(primary: Finding, finding: Finding, explained: set[str]) -> str:
    if finding is primary:
        return "root"
    if finding.rule.id in explained:
        return "consequence"
    same = (finding.first.record.file, finding.first.record.line) == (
        primary.first.record.file,
        primary.first.record.line,
    )
    return "alternative" if same or primary.rule.confidence != "confirmed" else "consequence"

"""Say what is known of an exception that no rule covers, and which rules come nearest."""

from __future__ import annotations

import re
from collections.abc import Sequence

from doctor.diagnosis.evidence import make_evidence
from doctor.diagnosis.facts import Facts
from doctor.diagnosis.match import Hit
from doctor.diagnosis.model import Diagnosis, Fix
from doctor.diagnosis.rule import Rule
from doctor.diagnosis.unknown import Unexplained
from doctor.launch.edits import Edit
from doctor.redact import clean, shorten

_RELATIVES = 3
_NEAR = 0.2
"""Share of a message's words that a rule's literals must hold to be called a relative."""

_WORD = re.compile(r"[A-Za-z_]{4,}")


def describe_unexplained(found: Unexplained, facts: Facts, rules: Sequence[Rule]) -> Diagnosis:
    """Name the exception, where SGLang raised it, in which phase, and what to do next."""
    raised, record = found.raised, found.event.record
    message = clean(shorten(raised.message.partition("\n")[0], 300))
    kind = clean(raised.type)
    said = f": {message}" if message else ""
    phase = f", during the {facts['phase.last']} phase" if facts.get("phase.last") else ""
    hit = Hit(record, "unknown", raised.line, f"{raised.type}: {raised.message}".partition("\n")[0], {})
    return Diagnosis(
        rule="GEN001",
        name="unrecognised-exception",
        title=f"{kind}{said}",
        role="root",
        severity="error",
        confidence="possible",
        ranks=(record.rank,) if record.rank else (),
        times=1,
        cause=f"SGLang stopped with {kind}{_describe_place(found)}{phase}{said}",
        why="No rule knows this exception. It is the first one of the chain that is not merely passed on.",
        evidence=(make_evidence(hit),),
        fixes=tuple(_suggest_relatives(f"{raised.type} {raised.message[:1000]}", rules)),
        recoverable="unknown",
    )


def _describe_place(found: Unexplained) -> str:
    place = found.place
    if place is None:
        return ""
    path = place.path.rpartition("/sglang/")[2] or place.path
    return f" in {clean(place.function)} ({clean(path)}:{place.line})"


def _suggest_relatives(text: str, rules: Sequence[Rule]) -> list[Fix]:
    names = [f"{rule.id} {rule.name}" for rule in find_relatives(text, rules)]
    if not names:
        return []
    edits = tuple(Edit("shell", f"doctor rule {name.partition(' ')[0]}", None, None) for name in names)
    title = "Look at the nearest known problems: " + ", ".join(names)
    return [Fix(title, "manual", edits, None, None, "They share words with this message; none of them matches it.", "")]


def find_relatives(text: str, rules: Sequence[Rule]) -> list[Rule]:
    """List the causes whose literals share most words with a message, the nearest first."""
    words = set(_WORD.findall(text.lower()))
    scored = []
    for rule in rules:
        literals = _list_words(rule)
        shared = len(words & literals)
        if rule.role == "root" and shared >= 2 and shared / max(len(words), 1) >= _NEAR:
            scored.append((-shared / len(words | literals), rule.id, rule))
    return [rule for _, _, rule in sorted(scored, key=lambda item: item[:2])[:_RELATIVES]]


def _list_words(rule: Rule) -> set[str]:
    keywords = (keyword for match in rule.matches for keyword in match.keywords)
    return {word for keyword in keywords for word in _WORD.findall(keyword.lower())}

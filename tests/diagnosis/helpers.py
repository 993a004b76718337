"""Small rules made for a test, and what they find in a text."""

from collections.abc import Sequence

from doctor.diagnosis.explain import Question
from doctor.diagnosis.match import Index
from doctor.diagnosis.model import Report
from doctor.diagnosis.rule import Condition, Match, Rule, Variant
from tests.helpers import explain_bytes, list_findings

STAMP = "[2026-04-24 06:29:{second:02d}{rank}] "


def make_rule(
    rule_id: str,
    *keywords: str,
    event: str = "line",
    pattern: str = "",
    phase: tuple[str, ...] = (),
    frame: str = "",
    evidence: tuple[str, ...] = (),
    conditions: tuple[Condition, ...] = (),
    role: str = "root",
    confidence: str = "confirmed",
    applies: str = "",
    when: str = "",
    explains: tuple[str, ...] = (),
    variants: tuple[Variant, ...] = (),
    title: str = "",
) -> Rule:
    match = Match(event, keywords, pattern, phase, frame, evidence)
    return Rule(
        rule_id,
        rule_id.lower(),
        "test",
        title or rule_id,
        "error",
        role,
        confidence,
        "unknown",
        applies,
        "cause",
        "why",
        when,
        (match,),
        conditions,
        explains,
        variants,
        (),
        (),
    )


def explain(rules: Sequence[Rule], text: str, command: str | None = None, **facts: object) -> Report:
    given = {name.replace("__", "."): value for name, value in facts.items()}
    return explain_bytes(("server.log", text.encode()), index=Index(rules), question=Question(command, given))


def find(rules: Sequence[Rule], text: str, **facts: object) -> list[str]:
    return list_findings(explain(rules, text, **facts))


def write(*messages: str, rank: str = "", begin: int = 0) -> str:
    """Write one record a second; a message may begin with its own rank, as in `TP1: text`."""
    lines = []
    for second, message in enumerate(messages, begin):
        head, colon, rest = message.partition(": ")
        own = colon and head.startswith("TP")
        tag = head if own else rank
        lines.append(STAMP.format(second=second, rank=f" {tag}" if tag else "") + (rest if own else message))
    return "".join(f"{line}\n" for line in lines)

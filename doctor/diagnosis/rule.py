"""What a rule is: plain frozen data, read from TOML by `load` and from the shipped pack by `pack`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple


class Match(NamedTuple):
    """One way to recognise the problem.

    `event`: line (a record's text), exception ("Type: message" of every exception of a chain), usage (argparse's
    error), kernel (kernel log records) or facts (no text; `when` alone decides, `evidence` names the facts to show).
    All `keywords` must occur in the record (case counts) before `pattern` is tried. `phase` limits where in the
    start-up it may happen, `frame` is searched in the "path function" lines of the traceback.
    """

    event: str
    keywords: tuple[str, ...] = ()
    pattern: str = ""
    phase: tuple[str, ...] = ()
    frame: str = ""
    evidence: tuple[str, ...] = ()


class Condition(NamedTuple):
    """A condition over other lines, bounded in lines or seconds and keyed by rank or process.

    `kind`: none (must not occur in the same start), near (occurs within the bounds on either side), sequence (occurs
    before the match within the bounds), count (the match itself occurs `at_least` times, within the bounds of one of
    them if there are bounds), absent-after (does not occur after the match), repeat-without-progress (the match repeats
    `at_least` times with none of these between). Of a pattern's hits the first and the last twelve are kept, so a
    bounded count is at most twelve.
    """

    kind: str
    keywords: tuple[str, ...] = ()
    pattern: str = ""
    within_lines: int = 0
    within_seconds: float = 0
    same: str = ""
    at_least: int = 1


class EditTemplate(NamedTuple):
    """A typed edit; `names` are alternatives, the first that the SGLang version has is used; `to` None removes."""

    kind: str
    names: tuple[str, ...]
    to: str | None
    when: str = ""


class FixTemplate(NamedTuple):
    """One way to fix the problem, shown when `when` holds; `safety`: safe, review or manual."""

    title: str
    safety: str
    when: str
    why: str
    verify: str
    edits: tuple[EditTemplate, ...]


class Variant(NamedTuple):
    """Different words for the same problem when `when` holds; empty fields keep the rule's own."""

    when: str
    title: str = ""
    cause: str = ""
    why: str = ""
    confidence: str = ""
    severity: str = ""


class Rule(NamedTuple):
    """A problem: how it is recognised, what it means, how it is fixed. Texts may hold `{expressions}` over facts.

    `general`: knows a whole class of messages and little of each, any other cause found in the same record is better.
    """

    id: str
    name: str
    family: str
    title: str
    severity: str
    role: str
    confidence: str
    recoverable: str
    applies: str
    cause: str
    why: str
    when: str
    matches: tuple[Match, ...]
    conditions: tuple[Condition, ...]
    explains: tuple[str, ...]
    variants: tuple[Variant, ...]
    fixes: tuple[FixTemplate, ...]
    missing: tuple[str, ...]
    general: bool = False


class Example(NamedTuple):
    """A piece of log that must fire the rule, or a near miss that must not; `facts` are given beside the log."""

    name: str
    fires: bool
    log: str
    command: str = ""
    facts: Mapping[str, Any] = {}


class Page(NamedTuple):
    """The prose of a rule for `doctor rule ID`."""

    means: str
    happens: str
    look_alikes: str
    wrong_when: str
    references: tuple[str, ...]
    examples: tuple[Example, ...]

"""Decide whether a model's output is degenerate: loops, random tokens, broken characters, nothing at all."""

from __future__ import annotations

from typing import NamedTuple

from doctor.logs.degenerate_debris import Debris, measure_debris
from doctor.logs.degenerate_loops import Echo, Loop, measure_echoes, measure_loop
from doctor.logs.degenerate_rules import RULES, Rule
from doctor.logs.degenerate_scripts import ScriptMix, measure_scripts
from doctor.logs.degenerate_shape import Shape, measure_shape, split_tokens
from doctor.logs.response import Response

MAX_CHARS = 200_000
"""Characters measured of an answer: a loop or salad shows long before, and every measure is linear in it."""

_SHOWN = 40
_ONE_TOKEN = 0.9


class Measures(NamedTuple):
    """All that is known of one output, in numbers.

    `chars_per_token` is visible characters over `completion_tokens`; without a count both are 0 and 1. `cut` says
    that the answer ended at its token limit, `stopped` that the model ended it; both are false when unknown.
    """

    chars: int
    completion_tokens: int
    chars_per_token: float
    cut: bool
    stopped: bool
    shape: Shape
    loop: Loop
    echo: Echo
    scripts: ScriptMix
    debris: Debris


class Verdict(NamedTuple):
    """The judgement: its `kinds` (the first is the main one), how sure it is, and why in one sentence.

    `confidence` is "likely" or "possible"; `threshold` names the limits that the first kind crossed, and is empty
    when the output is not degenerate.
    """

    degenerate: bool
    kinds: tuple[str, ...]
    confidence: str
    explanation: str
    threshold: str


def measure_output(text: str, completion_tokens: int | None = None, finish_reason: str | None = None) -> Measures:
    """Measure one answer; only its first 200 000 characters (`MAX_CHARS`) are looked at."""
    text = text[:MAX_CHARS]
    tokens = split_tokens(text)
    debris = measure_debris(text)
    count = max(completion_tokens or 0, 0)
    return Measures(
        chars=len(text),
        completion_tokens=count,
        chars_per_token=debris.visible / count if count else 1.0,
        cut=finish_reason == "length",
        stopped=finish_reason not in (None, "length", "abort"),
        shape=measure_shape(text, tokens),
        loop=measure_loop(text),
        echo=measure_echoes(tokens),
        scripts=measure_scripts(text),
        debris=debris,
    )


def judge_output(measures: Measures) -> Verdict:
    """Judge one answer by the rules of `degenerate_rules`; silence is preferred to a false alarm."""
    broken = [rule for rule in RULES if all(limit.holds(measures) for limit in rule.limits)]
    if not broken:
        return Verdict(
            degenerate=False, kinds=(), confidence="likely", explanation=_explain_health(measures), threshold=""
        )
    kinds = tuple(dict.fromkeys(_name_kind(rule, measures) for rule in broken))
    limits = ", ".join(f"{limit.measure} {limit.sign} {limit.value:g}" for limit in broken[0].limits)
    return Verdict(
        degenerate=True,
        kinds=kinds,
        confidence=broken[0].confidence,
        explanation=_explain(broken[0], measures),
        threshold=limits,
    )


def judge_response(response: Response) -> Verdict:
    """Judge every choice of a response: the verdict of the first degenerate one, else of the first."""
    choices = zip(response.texts, response.completion_tokens, response.finish_reasons, strict=True)
    verdicts = [judge_output(measure_output(*choice)) for choice in choices]
    return next((verdict for verdict in verdicts if verdict.degenerate), verdicts[0])


def _name_kind(rule: Rule, measures: Measures) -> str:
    """Call a loop of one word a repeated token: it points at the logits, a repeated sentence at sampling."""
    return "single-token" if rule.kind == "repetition" and measures.shape.top_token_share >= _ONE_TOKEN else rule.kind


def _explain(rule: Rule, measures: Measures) -> str:
    return rule.explanation.format(
        m=measures,
        unit=_show(measures.loop.unit),
        echo=_show(measures.echo.token),
        char=_show(measures.debris.run_char),
    )


def _show(text: str) -> str:
    text = text.strip() or text
    return repr(text if len(text) <= _SHOWN else text[: _SHOWN - 3] + "...")


def _explain_health(measures: Measures) -> str:
    return (
        f"nothing degenerate in {measures.shape.tokens} tokens: {measures.shape.distinct_ratio:.0%} are different,"
        f" the longest loop is {measures.loop.share:.0%} of the text"
    )

"""The rules that call an output degenerate: each is a set of limits on measures that must all hold.

The values were set on two sides. Healthy: 36 800 pieces of 300 to 8000 characters of real files (prose and short
phrases in 100 languages, code in 12 languages, data, manual pages) and the texts in fixtures/responses/healthy.
A fresh draw of 40 900 pieces, taken when the limits were set, raised no alarm except on ISO-2022 escape codes.
Degenerate: the recorded answers, and random tokens drawn from vocabularies of 32 000 and 150 000 tokens.
A comment gives the closest healthy value where it is not obvious.
"""

from __future__ import annotations

from operator import attrgetter
from typing import Literal, NamedTuple


class Limit(NamedTuple):
    """A bound on one measure, named as in `Measures` with dots: `measure >= value` or `measure <= value`."""

    measure: str
    sign: Literal[">=", "<="]
    value: float

    def holds(self, measures: object) -> bool:
        """Tell whether the measure is on the suspect side; the value itself counts."""
        found = float(attrgetter(self.measure)(measures))
        return found >= self.value if self.sign == ">=" else found <= self.value


class Rule(NamedTuple):
    """A kind of degenerate output and its limits; `explanation` is a format string over the measures."""

    kind: str
    confidence: str
    explanation: str
    limits: tuple[Limit, ...]


def make_rule(kind: str, confidence: str, explanation: str, *limits: str) -> Rule:
    """Make a rule from limits spelled as in `"loop.turns >= 10 loop.share >= 0.5"`."""
    words = " ".join(limits).split()
    parts = zip(words[::3], words[1::3], words[2::3], strict=True)
    return Rule(
        kind,
        confidence,
        explanation,
        tuple(Limit(measure, "<=" if sign == "<=" else ">=", float(value)) for measure, sign, value in parts),
    )


_LOOP = "{unit} repeats {m.loop.turns} times without a break, {m.loop.share:.0%} of the answer"
_ECHO = "{m.echo.share:.0%} of {m.shape.tokens} tokens equal the one before, most often {echo}"
_FEW = "only {m.shape.window_distinct:.0%} of 100 tokens in a row are different, in text without sentences"
_RUN = "{char} occurs {m.debris.run_length} times in a row, {m.debris.run_share:.0%} of the answer"
_BROKEN = "{m.debris.broken} of {m.chars} characters are U+FFFD or control characters"
_SCRIPTS = (
    "scripts change inside words {m.scripts.glued} times, in {m.scripts.glued_pairs} pairs that no language joins"
)
_SALAD = (
    "of {m.shape.tokens} tokens {m.shape.stops:.0%} end in punctuation and {m.shape.function_words:.0%} are common"
    " words, while {m.shape.oddities:.0%} hold inner capitals, inner symbols or stray brackets"
)
_EMPTY = "{m.completion_tokens} tokens were generated but only {m.debris.visible} characters are visible"
_BLANKS = "{m.debris.blank_run} blanks in a row, {m.debris.blank_share:.0%} of the answer"
_SPECIAL = "{m.debris.special} special tokens of the chat template make up {m.debris.special_share:.0%} of the answer"
_RAW = "{m.debris.raw_tokens} words start with the vocabulary's own blank: the tokens were not decoded"

_ENDLESS = "loop.at_end >= 1 stopped <= 0"
_CUT = "loop.at_end >= 1 cut >= 1"
_ONE = "shape.top_token_share >= 0.9"
_WORDS = "loop.word >= 2 loop.letters >= 0.4 loop.structured <= 0"

_DEBRIS_RULES = (
    # An answer that stopped by itself can be a tool call or hidden reasoning that the client did not save.
    make_rule("empty", "likely", _EMPTY, "completion_tokens >= 8 chars_per_token <= 0.1 stopped <= 0"),
    make_rule("whitespace", "likely", _BLANKS, "debris.blank_run >= 64 debris.visible <= 0"),
    make_rule("whitespace", "likely", _BLANKS, "debris.blank_run >= 200 debris.blank_share >= 0.5"),
    make_rule("replacement-characters", "likely", _BROKEN, "debris.broken >= 4 debris.broken_share >= 0.03"),
    make_rule("special-tokens", "likely", _SPECIAL, "debris.special >= 4 debris.special_share >= 0.5"),
    make_rule("raw-tokens", "possible", _RAW, "debris.raw_tokens >= 12 debris.raw_share >= 0.08"),
    make_rule("single-token", "likely", _RUN, "debris.run_strength >= 1 debris.run_share >= 0.9"),
    make_rule(
        "single-token",
        "likely",
        _RUN,
        "cut >= 1 debris.run_length >= 12 debris.run_strength >= 0.4 debris.run_share >= 0.9",
    ),
)

_SALAD_RULES = (
    # Healthy text reaches two pairs, once in 36 800 pieces; 40 random tokens of a large vocabulary reach three.
    make_rule("script-mixing", "likely", _SCRIPTS, "scripts.glued_pairs >= 3 scripts.glued_share >= 0.02"),
    make_rule(
        "script-mixing",
        "likely",
        _SCRIPTS,
        "scripts.glued_pairs >= 2 scripts.loose_pairs >= 1 scripts.glued_share >= 0.05",
    ),
    make_rule(
        "token-salad",
        "possible",
        _SALAD,
        "shape.tokens >= 30 shape.oddities >= 0.1 shape.inner_capitals >= 0.03 shape.other_oddities >= 0.02",
        "shape.stops <= 0.05 shape.function_words <= 0.05 shape.lines <= 0.04 shape.letters >= 0.93",
    ),
    make_rule(
        "token-salad",
        "likely",
        _SALAD,
        "shape.tokens >= 100 shape.oddities >= 0.06 shape.inner_capitals >= 0.025 shape.other_oddities >= 0.015",
        "shape.stops <= 0.05 shape.function_words <= 0.04 shape.lines <= 0.04 shape.letters >= 0.93",
    ),
)


def _make_loop_rule(confidence: str, loop: str, *limits: str) -> Rule:
    words = loop.split()
    named = " ".join(f"loop.{word}" if number % 3 == 0 else word for number, word in enumerate(words))
    return make_rule("repetition", confidence, _LOOP, named, *limits)


_LOOP_RULES = (
    # The plural forms of one Arabic phrase repeat 5 times and are 96 % of a piece, with 57 characters each.
    _make_loop_rule("likely", "turns >= 10 chars >= 60 share >= 0.5 spaced >= 1 lines <= 0", _WORDS, _ENDLESS),
    # Without blanks it may be a gene: 42 repeats of CAG.
    _make_loop_rule("likely", "turns >= 50 chars >= 200 share >= 0.8 lines <= 0", _WORDS, _ENDLESS),
    # Blank forms and templates repeat their rows, which are lines more than letters.
    _make_loop_rule("likely", "turns >= 12 chars >= 400 share >= 0.5 letters >= 0.7 spaced >= 1", _WORDS, _ENDLESS),
    _make_loop_rule("likely", "turns >= 6 chars >= 1000 share >= 0.5 spaced >= 1", _WORDS, _ENDLESS),
    # Rows of JSON have few letters, a matrix of zeros has none.
    _make_loop_rule("likely", "turns >= 30 chars >= 500 share >= 0.8 letters >= 0.1", _ENDLESS),
    _make_loop_rule("likely", "turns >= 100 chars >= 200 share >= 0.8 lines <= 0", _ENDLESS),
    # "Buffalo buffalo" sentences reach 8 turns, but begin with a capital that is not part of the loop; the plural
    # forms of a phrase are six at most.
    _make_loop_rule("possible", "turns >= 7 share >= 0.95 word >= 3 lines <= 0 sentence <= 0", _WORDS, _ENDLESS),
    _make_loop_rule("possible", "turns >= 5 share >= 0.95 word >= 3 sentence <= 0", _WORDS, _ENDLESS, _ONE),
    _make_loop_rule("likely", "turns >= 4 share >= 0.95 word >= 3 sentence <= 0", _WORDS, _CUT, _ONE),
    _make_loop_rule("likely", "turns >= 8 chars >= 200 share >= 0.25", _WORDS, _CUT),
    # Whoever asks for a line 100 times gets it; nobody asks for 200.
    _make_loop_rule("possible", "turns >= 200 share >= 0.9", _WORDS),
    make_rule("repetition", "likely", _ECHO, "shape.tokens >= 60 echo.share >= 0.5 shape.lines <= 0.06 stopped <= 0"),
    make_rule(
        "repetition",
        "likely",
        _FEW,
        "shape.tokens >= 60 shape.window_distinct <= 0.25 shape.letters >= 0.9 shape.lines <= 0.05",
        "shape.stops <= 0.08 shape.rhythm <= 0.25 stopped <= 0",
    ),
)

RULES = _DEBRIS_RULES + _SALAD_RULES + _LOOP_RULES
"""All rules in the order of their kinds; the first that holds explains the verdict."""

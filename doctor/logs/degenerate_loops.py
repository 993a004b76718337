"""Find where a text repeats itself: exact loops of any period, runs of one character, echoed tokens."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from itertools import groupby
from typing import NamedTuple

_SHORT_TEXT = 400
_SHORT_GRAM = 4
_LONG_GRAM = 16
"""Characters that must recur to suggest a period: 16 rarely recur in prose; short texts need short ones."""

_PERIODS_TRIED = 8
"""Most frequent distances that are checked as periods: one loop gives few, and each costs a pass over the text."""

_STRUCTURE = frozenset("{}[]<>|")
_WORD = re.compile(r"[^\W\d_]+")
_NUMBER = re.compile(r"[+-]?[\d.,]+(?:e[+-]?\d+)?", re.IGNORECASE)
_DATA_WORD = re.compile(r"\b(?:nan|null|none|nil|inf|true|false|yes|no|[a-z])\b", re.IGNORECASE)
"""Words that fill tables and matrices: a loop of these alone is read as data, not as words."""


class Loop(NamedTuple):
    """The longest stretch where one unit repeats without a gap; all zero when nothing repeats twice.

    `chars` and `turns` are its length and how often the unit fits, `share` its part of the text. `at_end` says
    that nothing follows. Of the unit: `letters` is the share of letters of words in its visible characters,
    `word` the length of its longest word, `lines` its line breaks, `spaced` that it has blanks or is not ASCII
    (Chinese and Thai need none), `structured` that it has brackets or bars. `sentence` says that only the
    text's first capital letter stands before the loop, as in "Fish fish fish fish fish."
    """

    unit: str
    chars: int
    turns: int
    share: float
    at_end: bool
    letters: float
    word: int
    lines: int
    spaced: bool
    structured: bool
    sentence: bool


class Echo(NamedTuple):
    """How often a token equals the one before it, as a share of all, and the most echoed token."""

    share: float
    token: str


def measure_loop(text: str) -> Loop:
    """Find the longest exact loop of at least two turns, in time linear in the text.

    Periods are guessed from how far apart equal runs of characters are.
    """
    start, end, period = _find_loop(text)
    unit = text[start : start + period]
    # NOTE: a loop of words lacks the blank after its last one, so that blank is granted when turns are counted.
    blank = any(map(str.isspace, unit))
    # NOTE: the loop may have been entered in the middle of a word, so words are looked for in two turns.
    words = _WORD.findall(_DATA_WORD.sub("", unit + unit))
    return Loop(
        unit=unit,
        chars=end - start,
        turns=(end - start + blank) // period if period else 0,
        share=(end - start) / max(len(text), 1),
        at_end=end > 0 and end >= len(text.rstrip()),
        letters=sum(map(len, words)) / max(2 * sum(map(len, unit.split())), 1),
        word=max(map(len, words), default=0),
        lines=unit.count("\n"),
        spaced=blank or not unit.isascii(),
        structured=not _STRUCTURE.isdisjoint(unit),
        sentence=start == 1 and text[0].isupper(),
    )


def _find_loop(text: str) -> tuple[int, int, int]:
    best = (0, 0, 0)
    for period in sorted(_guess_periods(text)):
        start, end = _find_stretch(text, period)
        if end - start >= 2 * period and end - start > best[1] - best[0]:
            best = (start, end, period)
    return best


def _guess_periods(text: str) -> set[int]:
    size = _SHORT_GRAM if len(text) < _SHORT_TEXT else _LONG_GRAM
    seen: dict[str, int] = {}
    distances: Counter[int] = Counter()
    for index in range(len(text) - size + 1):
        gram = text[index : index + size]
        distances[index - seen.get(gram, index)] += 1
        seen[gram] = index
    del distances[0]
    return {period for period, _ in distances.most_common(_PERIODS_TRIED)} | set(range(1, _SHORT_GRAM))


def _find_stretch(text: str, period: int) -> tuple[int, int]:
    """Return the longest stretch in which every character equals the one `period` before it."""
    start = end = position = 0
    for same, group in groupby(map(str.__eq__, text[period:], text)):
        size = sum(1 for _ in group)
        if same and size + period > end - start:
            start, end = position, position + size + period
        position += size
    return start, end


def measure_echoes(tokens: Sequence[str]) -> Echo:
    """Measure how often a token follows itself; prose in any language does so in less than 2 % of its tokens.

    Numbers and the words of tables do not count (`counts_as_word`): rows of zeros are data.
    """
    pairs = zip(tokens[1:], tokens, strict=False)
    echoes = Counter(token for token, before in pairs if token == before)
    words = {token: count for token, count in echoes.items() if counts_as_word(token)}
    if not words:
        return Echo(0.0, "")
    return Echo(sum(words.values()) / len(tokens), max(words, key=words.__getitem__))


def counts_as_word(token: str) -> bool:
    """Tell words, and symbols of several kinds such as `_"_`, from the numbers and fillers of tables."""
    if _NUMBER.fullmatch(token):
        return False
    if not any(map(str.isalpha, token)):
        return len(set(token)) > 1 and not any(map(str.isdigit, token))
    return bool(_WORD.search(_DATA_WORD.sub("", token)))

"""Measure the shape of a text: what tells prose from structured data, from leftovers and from random tokens."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple, TypeVar

from doctor.logs.degenerate_loops import counts_as_word

_HAN = "\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff"
_CHUNK = re.compile(rf"[{_HAN}]|[^\s{_HAN}]+")
_WINDOW = 100
"""Tokens per window of the distinct ratio: over a whole text the ratio falls with its length (Heaps' law)."""
_LONGEST_BEAT = 8
_NGRAM = 4

_INNER_CAPITAL = re.compile(r"[a-zß-öø-ÿ]{3}[A-ZÀ-ÖØ-Þ][a-z]")
_INNER_SYMBOL = re.compile(r"[^\W\d_][\"$;=<>\\`(){}\[\]!?%^~#]{1,9}[^\W\d_]")
_CLOSERS = "\"')]}*\u2019\u201d\u00bb\u300d"
_SYMBOLS = frozenset("#%&*/\\@\"'")
_BRACKET = re.compile(r"[()\[\]{}]")
_PAIRS = {")": "(", "]": "[", "}": "{"}

_FREQUENT = """
the of and to in is it that for on with as are was be this by at from or an not you he they his her have has
which but if can will de la le les et des en un une du que est pour dans il elle ne pas sur se au par plus ce
qui el los las con su es del al como no una do da os em um para com mais não der die das und ist nicht zu den
mit von auf für ein eine im dem sie ich auch che di per non sono della gli si na nie to jest jak po od za je
pro by és az egy hogy nem és și cu nu pe din ve bir bu için çok olan gibi och att det som på är av inte til
ikke ja on ei että oli mutta van het een dat niet op te voor zijn met và của là có trong cho không được một
các những với yang dan ini itu untuk dengan tidak dari pada adalah wa kwa katika ang ng sa mga
и в не на что как это по из но за то все к же
"""
_FUNCTION_WORDS = frozenset(_FREQUENT.split())
"""Most frequent words of 20 languages: at least a tenth of any prose in them, by chance 3 % of random tokens."""

_Item = TypeVar("_Item")


class Shape(NamedTuple):
    """What the tokens of a text look like; shares are of the tokens unless they say otherwise.

    `window_distinct` is the mean distinct ratio of windows of 100 words, `rhythm` the share of words that return
    after some number of words from 2 to 8, as in counting; single characters are no words in these two. `letters`
    is the share of letters and marks among visible characters, `lines` line breaks per token, `stops` the share of
    tokens that end in punctuation, `function_words` the share of very frequent words. `oddities` per token are
    `inner_capitals` ("ennettunaGiya"), and symbols inside words and brackets that close nothing.
    """

    tokens: int
    distinct_ratio: float
    window_distinct: float
    rhythm: float
    top_token: str
    top_token_share: float
    top_ngram: str
    top_ngram_share: float
    letters: float
    lines: float
    stops: float
    function_words: float
    inner_capitals: float
    other_oddities: float
    oddities: float


def split_tokens(text: str) -> list[str]:
    """Split at blanks, and Chinese and Japanese at each character; outer punctuation is dropped unless alone."""
    edges = _find_punctuation(text)
    return [chunk.strip(edges) or chunk for chunk in _CHUNK.findall(text)]


def _find_punctuation(text: str) -> str:
    from unicodedata import category

    return "".join(char for char in set(text) if category(char)[0] == "P")


def measure_shape(text: str, tokens: Sequence[str]) -> Shape:
    """Measure the shape of a text and its `tokens` (see `split_tokens`); all zero for an empty text."""
    count = max(len(tokens), 1)
    top, top_count = _find_most_common(tokens)
    grams = list(zip(*(tokens[start:] for start in range(_NGRAM)), strict=False))
    gram, gram_count = _find_most_common(grams)
    visible = sum(map(len, text.split()))
    capitals = sum(1 for _ in _INNER_CAPITAL.finditer(text))
    others = sum(1 for _ in _INNER_SYMBOL.finditer(text)) + _count_stray_closers(text)
    kept = {token for token in set(tokens) if len(token) > 1 and counts_as_word(token)}
    words = [token for token in tokens if token in kept]
    return Shape(
        tokens=len(tokens),
        distinct_ratio=len(set(tokens)) / count,
        window_distinct=_measure_windows(words),
        rhythm=_measure_rhythm(words),
        top_token=top or "",
        top_token_share=top_count / count,
        top_ngram=" ".join(gram or ()),
        top_ngram_share=gram_count / max(len(grams), 1),
        letters=_count_letters(text) / max(visible, 1),
        lines=text.strip().count("\n") / count,
        stops=_count_stops(text) / count,
        function_words=sum(token.lower() in _FUNCTION_WORDS for token in tokens) / count,
        inner_capitals=capitals / count,
        other_oddities=others / count,
        oddities=(capitals + others) / count,
    )


def _find_most_common(items: Sequence[_Item]) -> tuple[_Item | None, int]:
    return Counter(items).most_common(1)[0] if items else (None, 0)


def _count_stops(text: str) -> int:
    """Count tokens that end in a full stop, comma or the like of any script: Unicode's class Po, less its symbols."""
    from unicodedata import category

    ends = Counter(chunk.rstrip(_CLOSERS)[-1:] for chunk in _CHUNK.findall(text))
    return sum(count for char, count in ends.items() if char and char not in _SYMBOLS and category(char) == "Po")


def _measure_windows(words: Sequence[str]) -> float:
    """Return the mean distinct ratio of whole windows; 1 for less than half a window."""
    if len(words) < _WINDOW // 2:
        return 1.0
    starts = range(0, max(len(words) - _WINDOW, 0) + 1, _WINDOW)
    ratios = [len(set(words[start : start + _WINDOW])) / min(_WINDOW, len(words)) for start in starts]
    return sum(ratios) / len(ratios)


def _measure_rhythm(words: Sequence[str]) -> float:
    """Return the share of words that return after some fixed number of words, at the best such number."""
    counts = (sum(map(str.__eq__, words[lag:], words)) for lag in range(2, _LONGEST_BEAT + 1))
    return max(counts) / max(len(words), 1)


def _count_letters(text: str) -> int:
    """Count letters and combining marks: vowel signs make a third of the characters of Hindi or Thai."""
    from unicodedata import category

    return sum(count for char, count in Counter(text).items() if category(char)[0] in "LM")


def _count_stray_closers(text: str) -> int:
    """Count brackets that close what was not opened last; a text cut short leaves only open ones."""
    opened: list[str] = []
    stray = 0
    for match in _BRACKET.finditer(text):
        opener = _PAIRS.get(match[0])
        if opener is None:
            opened.append(match[0])
        elif opened and opened[-1] == opener:
            opened.pop()
        else:
            stray += 1
    return stray

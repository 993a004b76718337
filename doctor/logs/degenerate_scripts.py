"""Measure how a text mixes writing systems: natural mixing keeps them apart or joins the same two."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

_MARKS = "\u0300-\u036f\u0591-\u05c7\u064b-\u065f\u0670\u0900-\u0dff\u0e00-\u0eff\u0f00-\u109f\u1780-\u17ff\u200c\u200d"
"""Combining marks, and blocks whose vowel signs `\\w` leaves out."""

_RUN = re.compile(rf"(?:[^\W\d_]|[{_MARKS}])+")
_UNSPACED = frozenset({"HAN", "HANGUL", "THAI", "LAO", "KHMER", "MYANMAR", "TIBETAN"})
"""Writing systems without spaces, or with endings on foreign words: Latin words are glued to them every day."""

_HAN_NAMES = ("CJK ", "HIRAGANA ", "KATAKANA ", "KATAKANA-HIRAGANA ", "HALFWIDTH KATAKANA ", "BOPOMOFO ")
_SHARED = frozenset({"MODIFIER", "FULLWIDTH", "MATHEMATICAL"})


class ScriptMix(NamedTuple):
    """How scripts meet in a text.

    `scripts` counts those with at least two letters; `switches` is script changes per pair of neighbouring
    words; `glued` counts changes inside a word between scripts that no language joins; `glued_pairs` and
    `loose_pairs` count different pairs that meet inside a word, or across one space without the main script.
    """

    scripts: int
    switches: float
    glued: int
    glued_share: float
    glued_pairs: int
    loose_pairs: int


def measure_scripts(text: str) -> ScriptMix:
    """Measure how the scripts in a text meet; a text in one script has no switches."""
    if text.isascii():
        return ScriptMix(int(any(map(str.isalpha, text))), 0.0, 0, 0.0, 0, 0)
    letters: Counter[str] = Counter()
    inside: Counter[tuple[str, str]] = Counter()
    between: Counter[tuple[str, str]] = Counter()
    last, last_end, words = "", 0, 0
    for match in _RUN.finditer(text):
        chain = list(_list_scripts(match[0], letters))
        if not chain:
            continue
        words += 1
        inside.update(map(_sort_pair, chain, chain[1:]))
        if last and chain[0] != last and text[last_end : match.start()] == " ":
            between[_sort_pair(last, chain[0])] += 1
        last, last_end = chain[-1], match.end()
    return _sum_up(letters, inside, between, words)


def _sum_up(
    letters: Counter[str], inside: Counter[tuple[str, str]], between: Counter[tuple[str, str]], words: int
) -> ScriptMix:
    main = max(letters, key=letters.__getitem__, default="")
    odd = {pair: count for pair, count in inside.items() if not _is_joined_by_habit(*pair)}
    loose = {pair for pair in between if main not in pair}
    return ScriptMix(
        scripts=sum(count > 1 for count in letters.values()),
        switches=(sum(inside.values()) + sum(between.values())) / max(words, 1),
        glued=sum(odd.values()),
        glued_share=sum(odd.values()) / max(words, 1),
        glued_pairs=len(odd),
        loose_pairs=len(loose),
    )


def _is_joined_by_habit(first: str, second: str) -> bool:
    """Tell pairs that occur inside words: Latin names in Chinese, Hanja in Korean, Greek letters in science."""
    pair = {first, second}
    return pair == {"HAN", "HANGUL"} or ("LATIN" in pair and bool(pair & (_UNSPACED | {"GREEK"})))


def _sort_pair(first: str, second: str) -> tuple[str, str]:
    return (first, second) if first < second else (second, first)


def _list_scripts(word: str, letters: Counter[str]) -> Iterator[str]:
    """Yield the scripts of a word in order, a stretch of one script once, and count its letters."""
    if word.isascii():
        letters["LATIN"] += len(word)
        yield "LATIN"
        return
    last = ""
    for char in word:
        script = find_script(char)
        if script:
            letters[script] += 1
            if script != last:
                yield script
                last = script


@lru_cache(maxsize=4096)
def find_script(char: str) -> str:
    """Name the script of a letter by the first word of its Unicode name; "" for marks and shared letters.

    Kana and Chinese characters count as one script, "HAN", since every Japanese sentence mixes them.
    """
    from unicodedata import category, name

    title = name(char, "")
    if title.startswith(_HAN_NAMES):
        return "HAN"
    script = title.partition(" ")[0]
    shared = script in _SHARED or category(char)[0] == "M" or not (" LETTER" in title or " SYLLABLE" in title)
    return "" if shared else script

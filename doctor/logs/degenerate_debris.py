"""Measure what no answer should hold much of: broken characters, special tokens, blanks, one character in a row."""

from __future__ import annotations

import re
from itertools import groupby
from typing import NamedTuple

_BROKEN = re.compile("[\ufffd\x00-\x08\x0b\x0e-\x1a\x1c-\x1f\x7f]")
"""U+FFFD is what the detokenizer writes for bytes that are not UTF-8; tab, line breaks and escape are not broken."""

_SPECIAL = re.compile(
    r"<[|\uff5c][^<>|\uff5c\s]{1,40}[|\uff5c]>|</?s>|<(?:unk|pad|bos|eos|mask|0x[0-9A-F]{2}|(?:extra_id|unused)_?\d{1,5})>"
)
_RAW_TOKEN = re.compile(r"[\u0120\u2581][A-Za-z]")
"""Word starts in the vocabulary's own spelling (byte-level BPE and SentencePiece), left when a token is not decoded."""

_BLANKS = re.compile(r"\s+")
_FILL = frozenset("-_=.~*#+·•─━═░▒▓█ ")
_FILL_RUN = 200
_OTHER_RUN = 64
_BANG_RUN = 6
"""Shortest suspect run of one character. "!" is token 0 of the GPT-2, Llama 3 and Qwen vocabularies, which is what
sampling picks when the logits are NaN; rules and bars are drawn 80 to 120 wide, and a hash of zeros is 64."""


class Debris(NamedTuple):
    """Leftovers in a text; shares are of its characters.

    `run_length` is the longest run of one visible character `run_char`, and `run_strength` that length over the
    shortest suspect one for this character. `raw_tokens` counts undecoded word starts.
    """

    visible: int
    broken: int
    broken_share: float
    special: int
    special_share: float
    raw_tokens: int
    raw_share: float
    blank_run: int
    blank_share: float
    run_char: str
    run_length: int
    run_share: float
    run_strength: float
    compressibility: float


def measure_debris(text: str) -> Debris:
    """Measure leftovers; `compressibility` is compressed over plain size (prose 0.4 to 0.6, loops below 0.1)."""
    chars = max(len(text), 1)
    specials = _SPECIAL.findall(text)
    broken = len(_BROKEN.findall(text))
    raw = len(_RAW_TOKEN.findall(text))
    blank = max(map(len, _BLANKS.findall(text)), default=0)
    char, length = _find_run(text)
    return Debris(
        visible=sum(map(len, text.split())),
        broken=broken,
        broken_share=broken / chars,
        special=len(specials),
        special_share=sum(map(len, specials)) / chars,
        raw_tokens=raw,
        raw_share=raw / chars,
        blank_run=blank,
        blank_share=blank / chars,
        run_char=char,
        run_length=length,
        run_share=length / chars,
        run_strength=length / _find_suspect_length(char),
        compressibility=_measure_compressibility(text),
    )


def _find_run(text: str) -> tuple[str, int]:
    runs = ((char, sum(1 for _ in group)) for char, group in groupby(text) if not char.isspace())
    return max(runs, key=lambda run: run[1], default=("", 0))


def _find_suspect_length(char: str) -> int:
    if char == "!":
        return _BANG_RUN
    return _FILL_RUN if char.isalnum() or char in _FILL else _OTHER_RUN


def _measure_compressibility(text: str) -> float:
    import zlib

    data = text.encode("utf-8", "replace")
    return len(zlib.compress(data, 1)) / max(len(data), 1)

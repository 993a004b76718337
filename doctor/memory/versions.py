"""SGLang version numbers as tuples that compare."""

from __future__ import annotations


def parse_version(text: str) -> tuple[int, ...]:
    """Return (0, 5, 15, 1) for "0.5.15.post1"; development and local suffixes are dropped.

    An unreadable version counts as the newest one known to this package.
    """
    numbers: list[int] = []
    for piece in text.strip().lstrip("v").split("+")[0].split("."):
        digits = piece.removeprefix("post")
        if not digits.isdecimal() or len(digits) > 6:
            break
        numbers.append(int(digits))
    return tuple(numbers) if len(numbers) >= 2 else (9999,)

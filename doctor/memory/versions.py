"""SGLang version numbers as tuples that compare."""

from __future__ import annotations

from doctor.launch.versions import sort_key

# A version that cannot be read counts as the newest one known to this package.
NEWEST = (9999,)


def parse_version(text: str) -> tuple[int, ...]:
    """Return a tuple to compare with (0, 5, 15) and such, which release candidates and later builds reach too."""
    return sort_key(text) or NEWEST

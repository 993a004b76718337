"""Order SGLang versions such as `0.4.6.post5`, `0.5.10rc0` and `v0.5.15.post1.dev3+g1234`."""

from __future__ import annotations

import re

# Release numbers, then at most one of rc/post, as SGLang's own releases are named; the rest is ignored.
_VERSION = re.compile(r"v?(\d{1,6}(?:\.\d{1,6}){0,4})(?:\.?(rc|post)(\d{1,6}))?")


def sort_key(version: str) -> tuple[int, ...]:
    """Return a tuple that orders versions: rc before the release, post after it; () for any other text."""
    match = _VERSION.match(version.strip())
    if match is None:
        return ()
    release = [int(part) for part in match[1].split(".")]
    release += [0] * (4 - len(release))
    stage = {"rc": -1, None: 0, "post": 1}[match[2]]
    return (*release[:4], stage, int(match[3] or 0))

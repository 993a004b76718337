"""Cut a launch command out of the prose and the output that it was pasted with."""

from __future__ import annotations

import re

NOTE = "only the lines of the launch command were read"
_LAUNCH = re.compile(r"(?:^|[\s/])(?:sglang\s+serve|-m\s+(?:dynamo\.)?sglang)(?:[\s.]|$)")
_SETTING = re.compile(r"\s*(?:export\s+)?[A-Za-z_]\w*=\S*\s*$")
_GOES_ON = ("\\", "`", "^")


def cut_command(text: str) -> str | None:
    """Return the lines of the first launch command in a text, None without one.

    They begin with the lines above that go on in it or set variables, and end with the last line that is
    continued or begins with a flag.
    """
    lines = text.split("\n")
    at = next((number for number, line in enumerate(lines) if _LAUNCH.search(line)), None)
    if at is None:
        return None
    start, end = at, at + 1
    while start > 0 and belongs_above(lines[start - 1]):
        start -= 1
    while end < len(lines) and (lines[end - 1].rstrip().endswith(_GOES_ON) or lines[end].lstrip().startswith("-")):
        end += 1
    return strip_code("\n".join(lines[start:end]))


def strip_code(text: str) -> str:
    """Return what stands between the backquotes around the launch, the whole text where it has none."""
    found = _LAUNCH.search(text)
    opening = text.rfind("`", 0, found.start()) if found else -1
    closing = text.find("`", found.end()) if found else -1
    return text[opening + 1 : closing] if opening >= 0 and closing >= 0 else text


def belongs_above(line: str) -> bool:
    """Tell whether a line goes on in the next one, or sets a variable for it."""
    return line.rstrip().endswith(_GOES_ON) or _SETTING.match(line) is not None

"""How long ago a line of the kernel's log was written: dmesg puts the seconds since boot in front."""

from __future__ import annotations

import re

from doctor.probes.base.context import Context

_STAMP = re.compile(r"\[ *(\d{1,12})\.\d{1,9}\]")
# Minutes. What is older came before a whole day's work, which went well or was looked at.
_RECENT = 24 * 60


def read_age(context: Context, line: str) -> float | None:
    """Return a line's age in minutes, None when it or the uptime cannot be read."""
    stamp = _STAMP.match(line.strip())
    words = (context.read("/proc/uptime") or "").split()
    if stamp is None or not words or not words[0].replace(".", "", 1).isdecimal():
        return None
    return max(0.0, (float(words[0]) - float(stamp[1])) / 60)


def is_recent(age: float) -> bool:
    """Tell whether something so many minutes ago may still matter."""
    return age < _RECENT


def describe_age(age: float) -> str:
    """Say how long ago something was."""
    return f"{age:.0f} minutes ago" if age < 120 else f"{age / 60:.0f} hours ago"

"""The last time that the kernel killed something for lack of memory."""

from __future__ import annotations

import re
from collections.abc import Iterator

from doctor.probes.base.context import Context
from doctor.probes.base.devices import list_cgroups
from doctor.probes.base.files import read_fields
from doctor.probes.base.result import Result, make_ok, make_unknown, make_warning

NAME = "oom-kills"
GROUP = "host"
SUMMARY = "the kernel killed nothing for lack of memory"
NEEDS = ("kernel",)

_KILL = re.compile(r"(?:\[ *(\d+)\.\d+\])?.*[Kk]illed process (\d+) \(([^)]{0,64})\)")
_FIX = "doctor plan says how much host memory a launch takes"


def probe(context: Context) -> Iterator[Result]:
    """Read the kernel's log; without it the control group and /proc/vmstat at least count."""
    log = context.look("kernel")
    if log.data is None:
        kills = count_kills(context)
        if kills:
            yield make_warning(NAME, f"{kills} process(es) were killed for lack of memory since boot", (), (_FIX,))
        else:
            yield make_unknown(NAME, SUMMARY, f"the kernel's log is not readable: {log.reason}", ("sudo dmesg",))
        return
    found = [
        (match, line) for line in log.data.splitlines() if "illed process" in line and (match := _KILL.match(line))
    ]
    if not found:
        yield make_ok(NAME, SUMMARY + " since boot, as far as its log goes back")
        return
    match, line = found[-1]
    age = describe_age(context, match[1])
    summary = f"the kernel killed {match[3]} (pid {match[2]}) for lack of memory{age}; {len(found)} kill(s) in its log"
    yield make_warning(NAME, summary, (line.strip()[:300],), (_FIX,))


def count_kills(context: Context) -> int:
    """Count kills by the control group's events, or of the whole machine."""
    counts = [
        read_fields(context.read(f"{folder}/memory.events")).get("oom_kill", 0) for folder in list_cgroups(context)
    ]
    return max([*counts, read_fields(context.read("/proc/vmstat")).get("oom_kill", 0)])


def describe_age(context: Context, seconds: str | None) -> str:
    """Say how long ago a moment since boot was."""
    words = (context.read("/proc/uptime") or "").split()
    if seconds is None or not words or not words[0].replace(".", "", 1).isdecimal():
        return ""
    minutes = max(0, (float(words[0]) - float(seconds)) / 60)
    return f" {minutes:.0f} minutes ago" if minutes < 120 else f" {minutes / 60:.0f} hours ago"

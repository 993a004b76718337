"""The last time that the kernel killed something for lack of memory."""

from __future__ import annotations

import re
from collections.abc import Iterator

from doctor.probes.base.context import Context
from doctor.probes.base.devices import list_cgroups
from doctor.probes.base.files import read_fields
from doctor.probes.base.kernel_log import describe_age, is_recent, read_age
from doctor.probes.base.result import Result, make_ok, make_unknown, make_warning

NAME = "oom-kills"
GROUP = "host"
SUMMARY = "the kernel killed nothing for lack of memory"
NEEDS = ("kernel",)
INSIDE = False

_KILL = re.compile(r".*[Kk]illed process (\d+) \(([^)]{0,64})\)")
_FIX = "doctor plan MODEL says how much host memory a launch takes"
# What SGLang's processes are called in the kernel's log; their titles come after the imports.
_OURS = ("sglang", "python", "pt_main_thread")


def probe(context: Context) -> Iterator[Result]:
    """Read the kernel's log; without it the control group and /proc/vmstat at least count."""
    log = context.look("kernel")
    if log.data is None:
        yield count_kills(context, log.reason)
        return
    found = [
        (match, line) for line in log.data.splitlines() if "illed process" in line and (match := _KILL.match(line))
    ]
    if found:
        yield describe(context, *found[-1], len(found))
    else:
        yield make_ok(NAME, SUMMARY + " since boot, as far as its log goes back")


def describe(context: Context, match: re.Match[str], line: str, count: int) -> Result:
    """Judge the last kill: a note when it was long ago, or another program's that met the limit of its own group."""
    age, is_group = read_age(context, line), "Memory cgroup" in line
    when = f" {describe_age(age)}" if age is not None else ""
    where = " in a control group with a limit" if is_group else ""
    summary = (
        f"the kernel killed {match[2]} (pid {match[1]}) for lack of memory{where}{when}; {count} kill(s) in its log"
    )
    found = make_warning(NAME, summary, (line.strip()[:300],), (_FIX,))
    is_other = is_group and not match[2].startswith(_OURS)
    is_old = age is not None and not is_recent(age)
    return found._replace(severity="info") if is_other or is_old else found


def count_kills(context: Context, reason: str) -> Result:
    """Judge by the control group's events, else by the machine's count, which says neither what nor when."""
    groups = [read_fields(context.read(f"{folder}/memory.events")) for folder in list_cgroups(context)]
    own = max((fields.get("oom_kill", 0) for fields in groups), default=0)
    kills = own or read_fields(context.read("/proc/vmstat")).get("oom_kill", 0)
    if not kills:
        return make_unknown(NAME, SUMMARY, f"the kernel's log is not readable: {reason}", ("sudo dmesg",))
    where = "in this control group" if own else "on this machine"
    summary = f"{kills} process(es) were killed for lack of memory {where} since boot"
    found = make_warning(NAME, summary, (f"the kernel's log is not readable: {reason}",), ("sudo dmesg -T", _FIX))
    return found if own else found._replace(severity="info")

"""Memory pressure now, and guards that kill before the kernel does."""

from __future__ import annotations

import re
from collections.abc import Iterator

from doctor.probes.base.context import Context
from doctor.probes.base.result import Result, make_ok, make_unknown, make_warning

NAME = "pressure"
GROUP = "host"
SUMMARY = "nothing would kill the server early"
NEEDS = ()
INSIDE = False

_SHARE = re.compile(r"^(some|full) avg10=(\d{1,3}(?:\.\d+)?)", re.MULTILINE)
# systemd-oomd acts at 60 % of full pressure by default (oomd.conf, DefaultMemoryPressureLimit).
_STALLED = 10.0
_GUARDS = {
    "systemd-oomd": "sudo systemctl stop systemd-oomd   # or ManagedOOMMemoryPressure=auto for the server's slice",
    "earlyoom": "sudo systemctl stop earlyoom   # or earlyoom --avoid '(^|/)(python|sglang)'",
    "nohang": "sudo systemctl stop nohang",
}
_MAX_PROCESSES = 20_000
# Fields of ServerArgs that take host memory in earnest; without them a server is no large process for the host.
_HUNGRY = ("cpu_offload_gb", "offload_group_size", "enable_hierarchical_cache")


def probe(context: Context) -> Iterator[Result]:
    """Read pressure stall information, then look for guards."""
    text = context.read("/proc/pressure/memory")
    if text is None:
        yield make_unknown(NAME, "memory pressure", "this kernel does not tell (/proc/pressure is not there)")
    else:
        shares = {kind: float(value) for kind, value in _SHARE.findall(text)}
        if shares.get("full", 0.0) >= _STALLED:
            fixes = ("ps aux --sort=-rss | head",)
            evidence = tuple(text.splitlines()[:2])
            yield make_warning(NAME, f"all tasks wait for memory {shares['full']:.0f} % of the time", evidence, fixes)
        else:
            yield make_ok(NAME, f"memory pressure {shares.get('some', 0.0):.0f} %")
    for name in list_guards(context):
        summary = f"{name} runs: it kills large processes before the kernel does, and SGLang says nothing then"
        found = make_warning(NAME, summary, (), (_GUARDS[name],))
        is_hungry = any(isinstance(context.value(dest), int) and context.value(dest) > 0 for dest in _HUNGRY)
        yield found if is_hungry else found._replace(severity="info")


def list_guards(context: Context) -> list[str]:
    """List the guards that run; the kernel cuts their names at 15 characters."""
    pids = [name for name in context.list("/proc") if name.isdecimal()][:_MAX_PROCESSES]
    names = {(context.read(f"/proc/{pid}/comm") or "").strip() for pid in pids}
    return [guard for guard in _GUARDS if guard[:15] in names]

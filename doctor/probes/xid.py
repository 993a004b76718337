"""Xid errors that the NVIDIA driver wrote into the kernel's log since boot."""

from __future__ import annotations

import re
from collections.abc import Iterator

from doctor.probes.base.context import Context
from doctor.probes.base.devices import list_devices
from doctor.probes.base.files import exists
from doctor.probes.base.kernel_log import describe_age, is_recent, read_age
from doctor.probes.base.result import Result, make_error, make_ok, make_unknown, make_void, make_warning

NAME = "xid"
GROUP = "gpu"
SUMMARY = "no GPU errors in the kernel's log"
NEEDS = ("gpus", "kernel")
INSIDE = False

_XID = re.compile(r"NVRM: Xid \((?:PCI:)?([0-9a-fA-F:.]{4,20})\): (\d{1,3}),")
# NVIDIA's table of Xid errors: those that mean hardware or driver; all others point at software.
_HARDWARE = frozenset({48, 62, 63, 64, 74, 79, 92, 94, 95, 119, 120, 140, 143})


def probe(context: Context) -> Iterator[Result]:
    """Report the newest Xid of each device and number; a GPU that fell off the bus is listed by nobody else."""
    is_loaded = exists(context.root, "/proc/driver/nvidia/version")
    if not list_devices(context) and not is_loaded and "no answer" not in context.look("gpus").reason:
        yield make_void(NAME, "no NVIDIA GPU to look for")
        return
    log = context.look("kernel")
    if log.data is None:
        yield make_unknown(NAME, SUMMARY, f"the kernel's log is not readable: {log.reason}", ("sudo dmesg | grep Xid",))
        return
    lines: dict[tuple[str, str], str] = {}
    for line in log.data.splitlines():
        match = _XID.search(line)
        if match:
            lines[match[1], match[2]] = line.strip()[:300]
    hard = [line for (_, number), line in lines.items() if int(number) in _HARDWARE]
    if lines:
        yield describe(context, hard or list(lines.values()), is_hard=bool(hard))
    else:
        yield make_ok(NAME, SUMMARY)


def describe(context: Context, lines: list[str], *, is_hard: bool) -> Result:
    """Judge by kind and age: after a day it is the GPU's own state, another probe's, that counts."""
    ages = [read_age(context, line) for line in lines]
    known = [age for age in ages if age is not None]
    is_new = len(known) < len(ages) or is_recent(min(known))
    last = f", the last {describe_age(min(known))}" if known else ""
    evidence = tuple(lines[-5:])
    if is_hard:
        fixes = ("drain the node and reset the GPU: sudo nvidia-smi -r", "have it replaced if they come back")
        severe = make_error if is_new else make_warning
        return severe(NAME, f"Xid errors of the hardware since boot{last}", evidence, fixes)
    fix = "sudo dmesg -T | grep Xid   # and look at what ran then"
    found = make_warning(NAME, f"Xid errors since boot, of the kind that software causes{last}", evidence, (fix,))
    return found if is_new else found._replace(severity="info")

"""Names of network interfaces and InfiniBand devices in variables and flags, against what this host has."""

from __future__ import annotations

import json
from collections.abc import Iterator

from doctor.probes.base.context import Context
from doctor.probes.base.edits import set_variable
from doctor.probes.base.result import Result, make_error, make_ok, make_unknown, make_void, make_warning

NAME = "interfaces"
GROUP = "network"
SUMMARY = "named interfaces exist"
NEEDS = ()
INSIDE = True

# Variables that hold interface names (NCCL's and gloo's documentation), and those that hold InfiniBand devices.
_INTERFACES = ("NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME", "TP_SOCKET_IFNAME", "NVSHMEM_BOOTSTRAP_UID_SOCK_IFNAME")
# gloo and NCCL give up without the interface of these, with one rank, too; NCCL works with an NCCL_IB_HCA that is not
# there, and TP_SOCKET_IFNAME is read by neither (each tried on an H200, torch 2.11).
_VITAL = frozenset({"NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME"})
_DEVICES = ("NCCL_IB_HCA", "MOONCAKE_DEVICE", "NVSHMEM_HCA_LIST")
_FLAGS = ("disaggregation_ib_device", "mooncake_ib_device")


def probe(context: Context) -> Iterator[Result]:
    """Compare every name that is set."""
    asked = [name for name in (*_INTERFACES, *_DEVICES) if context.environment.get(name)]
    flags = [name for name in _FLAGS if isinstance(context.value(name), str) and context.value(name)]
    if not asked and not flags:
        yield make_void(NAME, "no variable or flag names an interface")
        return
    if not context.list("/sys/class/net"):
        yield make_unknown(NAME, SUMMARY, "/sys/class/net is not there")
        return
    problems = [problem for name in asked for problem in check_variable(context, name)]
    problems += [problem for name in flags for problem in check_flag(context, name)]
    yield from problems
    if not problems:
        yield make_ok(NAME, f"all names in {', '.join([*asked, *flags])} exist")


def check_variable(context: Context, name: str) -> Iterator[Result]:
    """Yield names of a variable that fit nothing: `^` excludes, `=` means exactly, else a beginning is enough."""
    value = context.environment[name]
    is_device = name in _DEVICES
    there = context.list("/sys/class/infiniband" if is_device else "/sys/class/net")
    if value.startswith("^"):
        return
    exact = value.startswith("=") or name.startswith("GLOO")
    wanted = [part.partition(":")[0].strip() for part in value.lstrip("=").split(",") if part.strip()]
    found = [one for one in there for part in wanted if (one == part if exact else one.startswith(part))]
    if not found or (exact and not set(wanted) <= set(there)):
        yield describe(context, name, value, there, is_device=is_device)


def describe(context: Context, name: str, value: str, there: list[str], *, is_device: bool) -> Result:
    """Say what is there instead; NCCL gives up or waits for minutes when it finds nothing."""
    kind = "InfiniBand device" if is_device else "interface"
    others = [one for one in there if one != "lo" and not one.startswith(("veth", "docker", "br-"))]
    best = others[0] if others else None
    fix = f"export {name}={best}" if best else f"unset {name}"
    evidence = (f"{name}={value}", f"here: {', '.join(there) or 'none'}")
    edits = (set_variable(context, name, best),)
    severe = make_error if name in _VITAL else make_warning
    fixes = tuple(dict.fromkeys((fix, f"unset {name}")))
    return severe(NAME, f"{name} names an {kind} that this host does not have", evidence, fixes, edits)


def check_flag(context: Context, name: str) -> Iterator[Result]:
    """Yield InfiniBand devices of a flag that do not exist; a JSON mapping of GPUs to devices is read, too."""
    value = str(context.value(name))
    there = context.list("/sys/class/infiniband")
    missing = [part for part in split_devices(value) if part not in there]
    if missing:
        evidence = (f"here: {', '.join(there) or 'none'}",)
        flag = f"--{name.replace('_', '-')}"
        summary = f"{flag} names {', '.join(missing[:4])}, which this host does not have"
        yield make_error(NAME, summary, evidence, ("ls /sys/class/infiniband",))


def split_devices(value: str) -> list[str]:
    """Return the device names of `mlx5_0,mlx5_1` or `{"0": "mlx5_0"}`; a file's name gives none."""
    if value.startswith("{"):
        try:
            parts = json.loads(value).values()
        except (ValueError, RecursionError, AttributeError):
            return []
        value = ",".join(str(part) for part in parts)
    return [] if value.endswith(".json") else [part.strip() for part in value.split(",") if part.strip()]

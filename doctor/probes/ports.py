"""The ports of the launch: SGLang loads the whole model before it tries its own."""

from __future__ import annotations

from collections.abc import Iterator

from doctor.launch.edits import Edit
from doctor.probes.base.context import Context
from doctor.probes.base.ports import Port, find_free, find_holder, is_free, list_ports
from doctor.probes.base.result import Result, make_error, make_ok, make_warning

NAME = "ports"
GROUP = "network"
SUMMARY = "the ports are free"
NEEDS = ()
INSIDE = True


def probe(context: Context) -> Iterator[Result]:
    """Try to bind every fixed port and let it go again."""
    ports = list_ports(context)
    taken = [(port, why) for port in ports if (why := is_free(port))]
    for port, why in taken:
        yield describe(context, port, why)
    if not taken:
        yield make_ok(NAME, f"free: {', '.join(f'{port.host}:{port.number}' for port in ports)}")


def describe(context: Context, port: Port, why: str) -> Result:
    """Say who holds a port and what to do; without a launch nobody asked for this one."""
    pid = find_holder(context, port.number)
    if pid is None and "in use" not in why.lower():
        return describe_address(port, why)
    name = " ".join((context.read(f"/proc/{pid}/cmdline") or "").replace("\0", " ").split())[:120] if pid else ""
    evidence = (
        f"{port.host}:{port.number}: {why}",
        f"held by pid {pid}: {name}" if pid else "held by a process of another user",
    )
    if context.launch is None:
        summary = f"port {port.number}, SGLang's default, is taken; another launch needs another one"
        found = make_warning(NAME, summary, evidence, (f"--port {find_free(context, port.number)}",))
        return found._replace(severity="info")
    edits: tuple[Edit, ...] = ()
    fixes = [f"kill {pid}   # {name}" if pid else f"sudo ss -ltnp sport = :{port.number}"]
    if port.use.startswith("HTTP"):
        free = find_free(context, port.number)
        fixes.append(f"--port {free}")
        edits = (Edit("flag", "--port", None, str(free)),)
    summary = f"port {port.number} ({port.use}) is taken: the server would find out after loading everything"
    return make_error(NAME, summary, evidence, tuple(fixes), edits)


def describe_address(port: Port, why: str) -> Result:
    """Say that the address itself cannot be bound, or that this user may not bind it."""
    summary = f"--host {port.host} port {port.number} cannot be bound here: {why}"
    if "ermission" in why:
        edits = (Edit("flag", "--port", str(port.number), "30000"),)
        return make_error(NAME, summary, (), ("--port 30000   # ports below 1024 are root's",), edits)
    edits = (Edit("flag", "--host", port.host, "0.0.0.0"),)  # noqa: S104 - what people mean by a foreign address
    fixes = ("--host 0.0.0.0   # all interfaces", "ip -brief address")
    return make_error(NAME, summary, (), fixes, edits)

"""--dist-init-addr: whether its host can be resolved, and whether rank 0 may bind it here."""

from __future__ import annotations

from collections.abc import Iterator

from doctor.probes.base.context import Context
from doctor.probes.base.ports import Port, is_free
from doctor.probes.base.result import Result, make_error, make_ok, make_unknown, make_void, make_warning

NAME = "rendezvous"
GROUP = "network"
SUMMARY = "the nodes can find each other"
NEEDS = ("rendezvous",)
INSIDE = True


def probe(context: Context) -> Iterator[Result]:
    """Judge the address as the node that this is would use it."""
    address = context.value("dist_init_addr")
    if not isinstance(address, str) or not address:
        yield from check_nodes(context)
        return
    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal() or not 0 < int(port[:6]) < 65536:
        fixes = ("give node 0's address and a free port of it, the same on every node",)
        yield make_error(NAME, f"--dist-init-addr {address} is not an address and a port", (), fixes)
        return
    yield judge(context, host.strip("[]"), int(port))


def check_nodes(context: Context) -> Iterator[Result]:
    """Yield a launch over several nodes that names no meeting point."""
    if context.count("nnodes") > 1:
        fixes = ("give node 0's address and a free port of it, the same on every node",)
        yield make_error(NAME, f"--nnodes {context.count('nnodes')} without --dist-init-addr", (), fixes)
    else:
        yield make_void(NAME, "a launch on one node without --dist-init-addr")


def judge(context: Context, host: str, port: int) -> Result:
    """Judge an address that was resolved."""
    answer = context.look("rendezvous")
    if not answer.data:
        if "no answer" in answer.reason or "no time" in answer.reason:
            return make_unknown(NAME, SUMMARY, f"{host} was not resolved: {answer.reason}")
        fixes = (f"getent hosts {host}", "use the address of node 0 instead of its name")
        return make_error(NAME, f"--dist-init-addr: {host} cannot be resolved", (answer.reason,), fixes)
    addresses = [str(address) for address in answer.data]
    if context.count("nnodes") > 1 and all(is_loopback(address) for address in addresses):
        summary = f"--dist-init-addr: {host} is {addresses[0]}, under which every node finds itself"
        fixes = ("ip -brief address   # and give the address that the other nodes reach", f"getent hosts {host}")
        return make_warning(NAME, summary, ("nodes that are all on this machine may meet there",), fixes)
    if context.value("node_rank", 0) not in (0, None):
        return make_ok(NAME, f"{host} is {addresses[0]}; whether node 0 listens there shows only when it runs")
    why = is_free(Port(port, addresses[0], ""))
    if why:
        return explain_bind(addresses[0], port, why)
    interface = find_interface(addresses[0])
    where = f" (interface {interface})" if interface else ""
    return make_ok(NAME, f"{addresses[0]}:{port} may be bound on this node{where}")


def is_loopback(address: str) -> bool:
    """Tell an address that never leaves the machine; Debian gives 127.0.1.1 to a machine's own name."""
    return address.startswith("127.") or address == "::1"


def find_interface(address: str) -> str | None:
    """Return the interface that has an address, None when no interface tells."""
    import psutil

    interfaces = psutil.net_if_addrs().items()
    return next((name for name, rows in interfaces if any(row.address == address for row in rows)), None)


def explain_bind(address: str, port: int, why: str) -> Result:
    """Say why rank 0 cannot listen at the address."""
    if "in use" in why.lower():
        fixes = (f"sudo ss -ltnp sport = :{port}", "choose another port on every node")
        return make_error(NAME, f"--dist-init-addr: port {port} is taken on this node", (why,), fixes)
    fixes = ("ip -brief address", "give an address of node 0; other nodes need their --node-rank")
    return make_error(
        NAME, f"--dist-init-addr: {address} is not an address of this node, which is node 0", (why,), fixes
    )

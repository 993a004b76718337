"""Proxies that would swallow the server's warm-up request to itself."""

from __future__ import annotations

from collections.abc import Iterator

from doctor.probes.base.context import Context
from doctor.probes.base.edits import set_variable
from doctor.probes.base.result import Result, make_ok, make_void, make_warning

NAME = "proxy"
GROUP = "network"
SUMMARY = "requests on loopback go straight"
NEEDS = ()
INSIDE = True

# Read by requests and urllib for http:// addresses; https_proxy does not apply to the warm-up.
_PROXIES = ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY")


def probe(context: Context) -> Iterator[Result]:
    """Compare the proxies with the exceptions."""
    environment = context.environment
    proxies = [name for name in _PROXIES if environment.get(name)]
    if not proxies:
        yield make_void(NAME, "no proxy is set")
        return
    host = context.value("host", "127.0.0.1")
    target = "127.0.0.1" if host in ("0.0.0.0", "::", "") else str(host)  # noqa: S104 - compared, not bound
    exceptions = environment.get("no_proxy") or environment.get("NO_PROXY") or ""
    if is_excepted(target, exceptions):
        yield make_ok(NAME, f"{proxies[0]} is set, and no_proxy excepts {target}")
        return
    # 0.5.1 and before sent it to 0.0.0.0 when told to listen there
    own = dict.fromkeys((target, "127.0.0.1", "localhost", *(("0.0.0.0",) if host == "0.0.0.0" else ())))  # noqa: S104
    wanted = ",".join(filter(None, [exceptions, *own]))
    evidence = (f"{proxies[0]}={environment[proxies[0]]}", f"no_proxy={exceptions or '(not set)'}")
    summary = f"the warm-up request to {target} would go through the proxy: the server may never get ready"
    edits = (set_variable(context, "no_proxy", wanted),)
    yield make_warning(NAME, summary, evidence, (f"export no_proxy={wanted}",), edits)


def is_excepted(host: str, exceptions: str) -> bool:
    """Tell whether no_proxy covers a host: its name, a domain it ends with, a network, or everything."""
    parts = [part.strip().lstrip("*") for part in exceptions.split(",") if part.strip()]
    return any(part in ("", host) or host.endswith(f".{part.lstrip('.')}") or is_inside(host, part) for part in parts)


def is_inside(host: str, network: str) -> bool:
    """Tell whether an address lies in a network such as 127.0.0.0/8."""
    if "/" not in network:
        return False
    import ipaddress

    try:
        return ipaddress.ip_address(host) in ipaddress.ip_network(network, strict=False)
    except ValueError:
        return False

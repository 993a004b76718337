"""Ports: which a launch takes, whether they are free, and who holds them, from /proc."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from typing import NamedTuple

from doctor.probes.base.context import Context
from doctor.probes.base.files import place

_LISTEN = "0A"
_MAX_SOCKETS, _MAX_PROCESSES = 50_000, 20_000
# With attention DP on one node and no --dist-init-addr, SGLang derives dist_init from --port (ZMQ_TCP_PORT_DELTA,
# srt/server_args.py 805-905, 0.5.23) and takes the next six numbers for its queues.
_DELTA, _QUEUES = 233, 7


class Port(NamedTuple):
    """A port that the launch needs, and for what."""

    number: int
    host: str
    use: str


def list_ports(context: Context) -> list[Port]:
    """List the fixed ports of a launch; without one, SGLang's defaults (host 127.0.0.1, port 30000)."""
    host = context.value("host", "127.0.0.1")
    host = host if isinstance(host, str) else "127.0.0.1"
    http = context.count("port", 30000)
    ports = [Port(http, host, "HTTP (--port)")]
    if context.value("enable_dp_attention") and not context.value("dist_init_addr") and context.count("nnodes") == 1:
        first = http + _DELTA if http + _DELTA + _QUEUES < 65536 else http - _DELTA
        ports += [
            Port(first + step, "127.0.0.1", f"--port + {first + step - http}, internal") for step in range(_QUEUES)
        ]
    if context.value("disaggregation_mode") == "prefill":
        ports.append(
            Port(context.count("disaggregation_bootstrap_port", 8998), host, "--disaggregation-bootstrap-port")
        )
    given = context.value("nccl_port")
    if isinstance(given, int):
        ports.append(Port(given, "127.0.0.1", "--nccl-port"))
    return [port for port in ports if 0 < port.number < 65536]


def is_free(port: Port) -> str:
    """Return why a port cannot be bound, empty when it can; binding and closing at once leaves nothing behind."""
    family = socket.AF_INET6 if ":" in port.host else socket.AF_INET
    host = {"localhost": "127.0.0.1", "": "127.0.0.1"}.get(port.host, port.host)
    try:
        with socket.socket(family, socket.SOCK_STREAM) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind((host, port.number))
    except OSError as error:
        return error.strerror or str(error)
    return ""


def find_holder(context: Context, number: int) -> int | None:
    """Return the pid that listens on a port, None when this user may not see it."""
    sockets = set(list_listeners(context, number))
    if not sockets:
        return None
    pids = [name for name in context.list("/proc") if name.isdecimal()][:_MAX_PROCESSES]
    return next((int(pid) for pid in pids if sockets & set(list_sockets(context, pid))), None)


def list_listeners(context: Context, number: int) -> Iterator[str]:
    """Yield the inodes of the sockets that listen on a port."""
    for name in ("tcp", "tcp6"):
        for line in (context.read(f"/proc/net/{name}") or "").splitlines()[1:_MAX_SOCKETS]:
            words = line.split()
            if len(words) > 9 and words[3] == _LISTEN and words[1].rpartition(":")[2] == f"{number:04X}":
                yield f"socket:[{words[9]}]"


def list_sockets(context: Context, pid: str) -> Iterator[str]:
    """Yield the sockets that a process holds."""
    for name in context.list(f"/proc/{pid}/fd")[:4096]:
        try:
            yield os.readlink(place(context.root, f"/proc/{pid}/fd/{name}"))
        except OSError:
            continue


def find_free(context: Context, start: int) -> int:
    """Return a free port above one that is taken."""
    host = context.value("host", "127.0.0.1")
    host = host if isinstance(host, str) else "127.0.0.1"
    candidates = (Port(start + step, host, "") for step in range(1, 200) if start + step < 65536)
    return next((port.number for port in candidates if not is_free(port)), start + 1000)

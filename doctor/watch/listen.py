"""/livez, /readyz and /metrics for Kubernetes and Prometheus (`--listen HOST:PORT`)."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from doctor.errors import DoctorError
from doctor.watch import states
from doctor.watch.status import Status, render_metrics

if TYPE_CHECKING:
    from http.server import ThreadingHTTPServer

ALIVE_SECONDS = 30.0
"""A doctor that has not looked for this long hangs itself; it looks at least once a second."""

_IDLE_SECONDS = 5.0
Reply = tuple[int, str]


def parse_address(text: str) -> tuple[str, int]:
    """Split HOST:PORT or a lone port; the host is loopback when left out. Raises DoctorError otherwise."""
    host, _, port = text.rpartition(":")
    if not port.isdecimal() or not 0 <= int(port) < 65536:
        raise DoctorError(f"--listen {text}: not an address", "for example --listen 127.0.0.1:9100")
    return host.strip("[]") or "127.0.0.1", int(port)


def answer(path: str, status: Status, now: float) -> Reply:
    """Give (HTTP status, text) for a path."""
    if path == "/metrics":
        return 200, render_metrics(status)
    if path == "/livez":
        alive = now - status.ticked < ALIVE_SECONDS and status.state != states.FAILED
        return (200 if alive else 503), f"{status.state}\n"
    if path == "/readyz":
        return (200 if status.state in states.UP else 503), f"{status.state} {status.phase} {status.diagnosis}\n"
    return 404, "only /livez, /readyz and /metrics\n"


def listen(address: tuple[str, int], get_status: Callable[[], Status]) -> ThreadingHTTPServer:
    """Serve in daemon threads until `shutdown`. Raises DoctorError when the port cannot be taken."""
    import socket
    import threading
    from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

    class Handler(BaseHTTPRequestHandler):
        timeout = _IDLE_SECONDS

        def do_GET(self) -> None:
            code, text = answer(self.path.partition("?")[0], get_status(), time.monotonic())
            data = text.encode()
            self.send_response(code)
            self.send_header("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_: object) -> None:
            """Stay quiet: probes come every second."""

    class Server(ThreadingHTTPServer):
        address_family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
        daemon_threads = True

        def handle_error(self, *_: object) -> None:
            """A client that goes away is no event."""

    try:
        server = Server(address, Handler)
    except OSError as error:
        raise DoctorError(
            f"--listen {address[0]}:{address[1]}: {error.strerror or error}", "choose another port"
        ) from error
    threading.Thread(target=server.serve_forever, name="listen", daemon=True).start()
    return server

"""Talk to systemd (sd_notify(3)): a datagram to the socket it names, no library."""

from __future__ import annotations

import os
from collections.abc import Mapping

VARIABLES = ("NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID")
"""Taken out of the server's environment: it is the doctor that systemd watches."""


class Notifier:
    """Sends states; without NOTIFY_SOCKET it does nothing."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        address = environment.get("NOTIFY_SOCKET", "")
        self._address = "\0" + address[1:] if address.startswith("@") else address
        self.period = find_period(environment)

    def send(self, *lines: str) -> None:
        """Send lines such as READY=1; systemd being away is no reason to stop."""
        if not self._address:
            return
        import contextlib
        import socket

        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as channel:
            channel.sendto("\n".join(lines).encode(), self._address)


def find_period(environment: Mapping[str, str]) -> float | None:
    """Give the seconds between two WATCHDOG=1: half of WATCHDOG_USEC, when it is meant for this process."""
    microseconds, pid = environment.get("WATCHDOG_USEC", ""), environment.get("WATCHDOG_PID", "")
    if not microseconds.isdecimal() or (pid and pid != str(os.getpid())):
        return None
    return int(microseconds) / 2e6 or None

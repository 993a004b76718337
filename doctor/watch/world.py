"""What the supervisor can see and do; the real one is `server.py`, tests script their own."""

from __future__ import annotations

from typing import Protocol

from doctor.watch.liveness import Activity
from doctor.watch.model import Fault, Run
from doctor.watch.policy import Ending
from doctor.watch.tree import Member


class World(Protocol):
    """Eyes and hands of the supervisor."""

    def start(self, mended: bool) -> int:
        """Start the server, with the safe edits of the last report when `mended`; give its id."""

    def members(self) -> tuple[Member, ...]:
        """Give the processes of the server, zombies too."""

    def poll(self) -> int | None:
        """Give the return code of the main process, None while it runs."""

    def signal_main(self, number: int) -> None:
        """Send a signal to the main process."""

    def signal_all(self, number: int) -> None:
        """Send a signal to every process of the server."""

    def adopt(self, pid: int) -> None:
        """Take another process for the main one."""

    def output(self) -> int:
        """Give the bytes of output so far."""

    def batches(self) -> tuple[int, int]:
        """Give the number of batch lines, and the requests running or queued in the last one."""

    def activity(self) -> Activity:
        """Say what the processes do."""

    def clients(self) -> int | None:
        """Count connections to the server's port; None when that cannot be known."""

    def proxy(self) -> str:
        """Name the variable whose proxy gets the server's requests to itself, "" when none does."""

    def ask(self, kind: str) -> bool:
        """Send a probe, "ready" or "health"; its answer comes later. False while another is under way."""

    def collect(self, fault: Fault) -> None:
        """Begin to collect evidence; `on_evidence` is called when done."""

    def explain(self, run: Run) -> Ending:
        """Diagnose an end and print it."""

    def held_gpus(self) -> str:
        """Say which GPU memory of the last server is still held, "" when none is."""

    def say(self, text: str) -> None:
        """Tell the user."""

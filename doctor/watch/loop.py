"""The loop of `doctor run`: wait, take what happened, look once, show."""

from __future__ import annotations

import collections
import contextlib
import os
import select
import signal
import time
from collections.abc import Callable, Iterator
from typing import Any

from doctor.watch import states
from doctor.watch.machine import Change
from doctor.watch.model import Settings
from doctor.watch.notify import Notifier
from doctor.watch.server import Message, Server
from doctor.watch.status import Status, describe
from doctor.watch.supervisor import Supervisor
from doctor.watch.tree import Member, decode_status, read_stat

FORWARDED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

_TICKS = {states.READY: 1.0, states.SERVING: 1.0}
_TICK_SECONDS = 0.25
"""Between two looks; a served server is looked at once a second, since each look costs about 1 ms."""


class Inbox:
    """What other threads and signal handlers put in; a pipe wakes the loop."""

    def __init__(self) -> None:
        self._messages: collections.deque[Message] = collections.deque(maxlen=4096)
        self.wake, self._waker = os.pipe()
        for descriptor in (self.wake, self._waker):
            os.set_blocking(descriptor, False)

    def post(self, message: Message) -> None:
        """Put in."""
        self._messages.append(message)
        with contextlib.suppress(BlockingIOError):
            os.write(self._waker, b"x")

    def take(self) -> Iterator[Message]:
        """Take out everything there is."""
        with contextlib.suppress(BlockingIOError):
            os.read(self.wake, 4096)
        while self._messages:
            yield self._messages.popleft()


class Loop:
    """Runs one supervisor to its final state."""

    def __init__(self, server: Server, settings: Settings, inbox: Inbox, notifier: Notifier) -> None:
        self._server = server
        self._desk = server.desk
        self._inbox = inbox
        self._notifier = notifier
        self._phase = ""
        self._exits: dict[int, int] = {}
        self._notified = 0.0
        self._restarts: dict[str, int] = {}
        self.status = Status()
        self.supervisor = Supervisor(server, settings, time.monotonic, self._on_change)

    def run(self) -> None:
        """Start the server and stay until it has ended for good."""
        for number in FORWARDED:
            signal.signal(number, self._on_signal)
        self.supervisor.begin()
        self._desk.screen.say(f"started pid {self._server.main}")
        while self.supervisor.machine.state not in states.FINAL:
            self._wait()
            for message in self._inbox.take():
                self._dispatch(message)
            self.supervisor.tick()
            self._show()
        self._notifier.send("STOPPING=1")

    def _wait(self) -> None:
        """Wait for a message, the end of a process, or the next look."""
        self._watch_exits(self._server.last_members)
        seconds = _TICKS.get(self.supervisor.machine.state, _TICK_SECONDS)
        ready = select.select([self._inbox.wake, *self._exits], [], [], seconds)[0]
        for descriptor in ready:
            if descriptor in self._exits:
                pid = self._exits.pop(descriptor)
                os.close(descriptor)
                stat = read_stat(pid)
                self.supervisor.on_exit(pid, decode_status(stat.code) if stat and stat.state == "Z" else None)

    def _watch_exits(self, members: tuple[Member, ...]) -> None:
        """Hold a pidfd of the main process and of every rank (Linux 5.3): their end wakes the loop at once."""
        watched = set(self._exits.values())
        for member in members:
            if (member.is_worker or member.pid == self._server.main) and member.is_alive and member.pid not in watched:
                with contextlib.suppress(OSError, AttributeError):
                    self._exits[os.pidfd_open(member.pid)] = member.pid

    def _dispatch(self, message: Message) -> None:
        handlers: dict[str, Callable[[Any], None]] = {
            "event": self.supervisor.on_event,
            "answer": self.supervisor.on_answer,
            "readiness": self.supervisor.on_readiness,
            "evidence": self.supervisor.on_evidence,
            "memory": self.supervisor.on_memory,
            "signal": self.supervisor.on_signal,
        }
        handlers[message.kind](message.data)

    def _on_signal(self, number: int, _frame: object) -> None:
        self._inbox.post(Message("signal", number))

    def _on_change(self, change: Change) -> None:
        self._desk.journal.write("state", before=change.before, after=change.after, reason=change.reason)
        if change.after == states.STARTING:
            cause = self.supervisor.past[-1].fingerprint if self.supervisor.past else "none"
            self._restarts[cause] = self._restarts.get(cause, 0) + 1
        if change.after == states.READY and change.before == states.STARTING:
            self._notifier.send("READY=1", f"STATUS={change.reason}")
        self._desk.screen.say(f"{change.after}: {change.reason}")

    def _show(self) -> None:
        now = time.monotonic()
        run = self.supervisor.run
        status = self._server.describe(self.supervisor.machine.state, run)
        self.status = status._replace(ticked=now, restarts=dict(self._restarts))
        if status.state == states.STARTING and run.phase != self._phase:
            self._phase = run.phase
            self._desk.journal.write("phase", phase=run.phase, seconds=round(status.elapsed, 1))
            self._desk.screen.say(f"phase {run.phase} after {status.elapsed:.1f} s")
        text = describe(self.status)
        self._desk.screen.draw(text)
        if self._notifier.period is not None and now - self._notified >= self._notifier.period:
            self._notified = now
            self._notifier.send("WATCHDOG=1", f"STATUS={text}")

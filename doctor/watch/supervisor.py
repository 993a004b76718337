"""Bring together what was seen and what follows: the only place where a server's state changes."""

from __future__ import annotations

import signal
from collections.abc import Callable

from doctor.logs.events.types import Event, PhaseMark
from doctor.watch import states
from doctor.watch.lifecycle import find_phase, is_announced, note_progress
from doctor.watch.liveness import View, find_fault, is_detoured, is_suspect
from doctor.watch.machine import Change, Machine
from doctor.watch.model import Answer, Death, Fault, Readiness, Run, Settings, Stop
from doctor.watch.policy import Decision, Past, decide
from doctor.watch.tree import Member, choose_ranks, decode_status
from doctor.watch.world import World

FAULT_STOP_SECONDS = 5.0
"""From SIGTERM to SIGKILL after a fault: a hung scheduler never drains, and a main process without one waits for it."""

EVIDENCE_SECONDS = 20.0
"""The longest that evidence may delay the end."""

ROUTINE_SECONDS = 60.0
"""Between two health probes of a server without requests; each runs one token (`/health`, 0.4.10 to 0.5.23)."""

OWN_SECONDS = 1.0
"""How long after a probe of the doctor its batch lines may still come."""

SUSPICION_SECONDS = 10.0
ARRIVAL_SECONDS = 2.0
"""Output later than this after `Uvicorn running on` shows that the warm-up got through."""

IDLE_SECONDS = 30.0
SURVIVOR_SECONDS = 5.0
"""What is left of a tree this long after its main process died is ended: SGLang's children follow it at once."""

UNKILLABLE_SECONDS = 15.0
GPU_SECONDS = 120.0
"""A driver gives memory back within seconds; more than 30 s were seen (`utils/network.py:70`, 0.5.23)."""


class Supervisor:
    """Takes what happens (`on_…`) and the passing of time (`tick`); gives orders to its world."""

    def __init__(
        self, world: World, settings: Settings, clock: Callable[[], float], listener: Callable[[Change], None]
    ) -> None:
        self._world = world
        self._settings = settings
        self._clock = clock
        self.machine = Machine(clock, listener)
        self.run = Run(0, clock())
        self.past: tuple[Past, ...] = ()
        self.mended = False
        self.decision: Decision | None = None
        self._stopped: dict[int, float] = {}
        self._ranks: dict[int, Member] = {}
        self._memory = ""
        self._due = 0.0
        self._waits = False

    # -- what happens

    def begin(self) -> None:
        """Start the first server."""
        self._start(mended=False)

    def on_event(self, event: Event) -> None:
        """Take an event of the output."""
        if isinstance(event, PhaseMark):
            marks = self.run.marks | {f"{event.phase} {event.edge}"}
            since = self._clock() if "warmup http" in marks else None
            phase = find_phase(event, self.run.phase)
            self.run = self.run._replace(marks=marks, phase=phase, listening=self.run.listening or since)

    def on_exit(self, pid: int, code: int | None) -> None:
        """Take the end of one process that is not the main one."""
        member = self._ranks.pop(pid, None)
        if member:
            death = Death(pid, member.title, code, self._clock())
            self.run = self.run._replace(deaths=(*self.run.deaths, death)[:64])

    def on_answer(self, answer: Answer) -> None:
        """Take the answer of a health probe."""
        moved = self._clock() if answer.status == 200 else self.run.last_batch
        own = self._clock() + OWN_SECONDS
        self.run = self.run._replace(health=answer, health_asked=0.0, last_batch=moved, own=own)

    def on_readiness(self, readiness: Readiness) -> None:
        """Take the result of the check for readiness."""
        self.run = self.run._replace(readiness=readiness, own=self._clock() + OWN_SECONDS)
        if readiness.warning:
            self._world.say(readiness.warning)

    def on_evidence(self, folder: str) -> None:
        """Take the folder that the evidence was written to."""
        self.run = self.run._replace(evidence=folder, evidence_done=True)

    def on_memory(self, reason: str) -> None:
        """Take the host guard's reason for having halted the server."""
        self._memory = reason

    def on_signal(self, number: int) -> None:
        """Forward the first signal; end at once on the second."""
        state = self.machine.state
        if state == states.BACKING_OFF:
            self.machine.move(states.STOPPED, f"signal {number} while waiting for the next start")
        elif state in states.RUNNING:
            self._stop_for_user(number)

    def _stop_for_user(self, number: int) -> None:
        now, stop = self._clock(), self.run.stop
        if stop is not None and stop.by == "user":
            self._world.say("second signal: ending it now")
            self.run = self.run._replace(stop=stop._replace(kill_at=now))
            return
        self._order_stop(Stop("user", number, now, now + self._settings.stop_seconds), f"signal {number}")
        # SIGHUP means that the terminal is gone; SGLang has no handler for it
        self._world.signal_main(signal.SIGTERM if number == signal.SIGHUP else number)

    # -- the passing of time

    def tick(self) -> None:
        """Look, judge and act once."""
        state = self.machine.state
        if state in states.RUNNING:
            self._tick_running()
        elif state == states.BACKING_OFF:
            self._tick_backing_off()

    def _tick_running(self) -> None:
        members = self._world.members()
        self._note(members)
        if self._tick_exit(members):
            return
        if self.machine.state == states.DRAINING:
            self._tick_draining()
        elif self.machine.state == states.STALLED:
            self._tick_stalled(members)
        else:
            self._tick_watching(members)

    def _note(self, members: tuple[Member, ...]) -> None:
        """Keep what this look shows: deaths, stopped processes, progress."""
        now = self._clock()
        alive = {member.pid: member for member in members if member.is_alive}
        ended = {member.pid: member.stat.code for member in members if not member.is_alive}
        for pid in [pid for pid in self._ranks if pid not in alive]:
            code = ended.get(pid)
            self.on_exit(pid, None if code is None else decode_status(code))
        self._ranks.update({member.pid: member for member in choose_ranks(members)})
        stopped = [member.pid for member in members if member.stat.state in ("T", "t")]
        self._stopped = {pid: self._stopped.get(pid, now) for pid in stopped}
        most = max((member.stat.rss for member in members), default=0)
        self.run = self.run._replace(most_memory=max(self.run.most_memory, most))
        self.run = note_progress(self.run, now, self._world.output(), self._world.batches()[0])

    def _tick_exit(self, members: tuple[Member, ...]) -> bool:
        """Follow the end of the main process; True when nothing is left of the server."""
        now, run = self._clock(), self.run
        if run.exited is None:
            code = self._world.poll()
            if code is None:
                return False
            self.run = run = run._replace(code=code, exited=now)
        survivors = [member for member in members if member.is_alive]
        if not survivors:
            self._conclude()
            return True
        if run.exited is not None and now - run.exited > SURVIVOR_SECONDS and run.stop is None:
            self._handle_survivors(survivors)
        return False

    def _handle_survivors(self, survivors: list[Member]) -> None:
        """A command that goes into the background leaves with code 0; anything else left orphans behind."""
        now = self._clock()
        oldest = min(survivors, key=lambda member: (not member.is_rank, member.stat.start))
        if self.run.code == 0:
            self._world.say(f"the command went into the background; watching pid {oldest.pid} ({oldest.title}) instead")
            self._world.adopt(oldest.pid)
            self.run = self.run._replace(code=None, exited=None)
            return
        self._order_stop(Stop("doctor", 0, now, now + FAULT_STOP_SECONDS), "its main process is gone")
        self._world.signal_all(signal.SIGTERM)

    def _tick_watching(self, members: tuple[Member, ...]) -> None:
        view = self._view(members)
        self._note_arrival(view)
        fault = find_fault(view, self._settings)
        if fault is not None:
            self.run = self.run._replace(fault=fault)
            self.machine.move(states.STALLED, fault.words)
            self._world.collect(fault)
            return
        self._ask(view)
        self._advance(view)

    def _note_arrival(self, view: View) -> None:
        """Note that something reached the HTTP server of a start: a connection, or output later than 2 s after it."""
        run = self.run
        if view.state == states.STARTING and run.listening is not None and not run.health_asked and not run.health:
            arrived = run.arrived or bool(view.clients) or run.last_output > run.listening + ARRIVAL_SECONDS
            self.run = run._replace(arrived=arrived)

    def _ask(self, view: View) -> None:
        """Send the probe that is due."""
        run = self.run
        if view.state == states.STARTING and is_announced(run) and run.readiness.state == "":
            if self._world.ask("ready"):
                self.run = run._replace(readiness=Readiness("asked", view.now))
            return
        if is_detoured(view):
            if run.health is None and not run.health_asked and self._world.ask("health"):
                self.run = run._replace(health_asked=view.now)
            return
        last = max(run.health_asked, run.health.time if run.health else run.last_batch)
        due = view.now - last > (SUSPICION_SECONDS if is_suspect(view) else ROUTINE_SECONDS)
        if view.state in states.UP and run.answered and not run.health_asked and due and self._world.ask("health"):
            self.run = run._replace(health_asked=view.now)

    def _advance(self, view: View) -> None:
        """Take the arrow that progress allows."""
        run = self.run
        if view.state == states.STARTING and run.readiness.state == "passed":
            self.run = run._replace(ready_after=view.now - run.started, answered=run.readiness.kind != "unasked")
            self.machine.move(states.READY, run.readiness.words)
        elif view.state == states.READY and view.clients and run.last_batch > run.own:
            self.machine.move(states.SERVING, "requests are running")
        elif view.state == states.SERVING and not view.clients and view.now - run.last_batch > IDLE_SECONDS:
            self.machine.move(states.READY, "no request for a while")

    def _tick_stalled(self, members: tuple[Member, ...]) -> None:
        """Wait for the evidence, and for SGLang's own end where it has one; then end the server."""
        fault, now = self.run.fault, self._clock()
        if fault is None:
            return
        waited = now - fault.time
        if not self.run.evidence_done and waited < EVIDENCE_SECONDS:
            return
        if self._has_recovered(members, fault):
            self._recover(fault)
        elif waited >= fault.ends_itself:
            self._order_stop(Stop("doctor", 0, now, now + FAULT_STOP_SECONDS), fault.words)
            self._world.signal_main(signal.SIGTERM)

    def _has_recovered(self, members: tuple[Member, ...], fault: Fault) -> bool:
        """A stopped process that goes on, requests that move again, output after silence: no reason to end it.

        Once the HTTP server is up, output proves nothing: it logs the question for /server_info in the evidence.
        """
        if fault.kind == "stopped":
            return not any(member.pid in self._stopped for member in members)
        if fault.kind in ("stalled", "unhealthy"):
            return self.run.last_batch > fault.time
        goes_on = self.run.last_output > fault.time if self.run.listening is None else is_announced(self.run)
        return fault.kind == "silent-start" and goes_on

    def _recover(self, fault: Fault) -> None:
        state = states.STARTING if self.run.ready_after is None else states.SERVING
        self.run = self.run._replace(fault=None, evidence_done=False)
        self.machine.move(state, f"it goes on again ({fault.kind}); nothing is ended")

    def _tick_draining(self) -> None:
        now, stop = self._clock(), self.run.stop
        if stop is None or now < stop.kill_at:
            return
        self._world.signal_all(signal.SIGKILL)
        if not stop.killed:
            self.run = self.run._replace(stop=stop._replace(killed=True))
            self._world.say("it did not end in time: killed")
        elif now > stop.kill_at + UNKILLABLE_SECONDS:
            self._world.say("some processes cannot be killed: the kernel holds them (state D); they are left behind")
            self._conclude()

    def _order_stop(self, stop: Stop, reason: str) -> None:
        self.run = self.run._replace(stop=stop)
        if self.machine.state != states.DRAINING:
            self.machine.move(states.DRAINING, reason)

    # -- after the end

    def _conclude(self) -> None:
        now = self._clock()
        self.run = self.run._replace(gone=now)
        self.machine.move(states.DEAD, f"no process is left (code {self.run.code})")
        stop = self.run.stop
        if self.run.fault is None and ((stop and stop.by == "user") or (self.run.code == 0 and stop is None)):
            self.machine.move(states.STOPPED, "as asked" if stop else "it ended by itself with code 0")
            return
        ending = self._world.explain(self.run)
        self.decision = decide(ending, self.past, self.mended, self._settings, now)
        if stop and stop.by == "user":
            self.decision = Decision("give-up", 0.0, "it was asked to stop")
        self.past = (*self.past, Past(now, ending.fingerprint))[-64:]
        self._follow(self.decision)

    def _follow(self, decision: Decision) -> None:
        if decision.action == "give-up":
            self.machine.move(states.FAILED, f"not started again: {decision.reason}")
            return
        self._due = self._clock() + decision.pause
        pause = f", in {decision.pause:.0f} s" if decision.pause else ""
        self.machine.move(states.BACKING_OFF, decision.reason + pause)

    def _tick_backing_off(self) -> None:
        now = self._clock()
        if now < self._due or self.decision is None:
            return
        held = self._world.held_gpus()
        if held and now < self._due + GPU_SECONDS:
            if not self._waits:
                self._world.say(f"not started again yet: {held}")
            self._waits = True
            return
        if held:
            self.machine.move(states.FAILED, f"not started again: {held}")
            return
        self._start(mended=self.decision.action == "mend")
        self.machine.move(states.STARTING, "mended" if self.decision.action == "mend" else "again")

    def _start(self, mended: bool) -> None:
        self.mended = self.mended or mended
        now = self._clock()
        self._stopped, self._ranks, self._memory, self._waits = {}, {}, "", False
        self.run = Run(self.run.number + 1, now, last_output=now, last_batch=now)
        self.run = self.run._replace(pid=self._world.start(mended))

    def _view(self, members: tuple[Member, ...]) -> View:
        return View(
            self._clock(),
            self.machine.state,
            self.run,
            members,
            self._stopped,
            self._world.activity(),
            self._world.clients() if self.machine.state in states.UP or self.run.listening else 0,
            self._world.batches()[1],
            self._memory,
            self._world.proxy() if self.run.listening and self.machine.state == states.STARTING else "",
        )

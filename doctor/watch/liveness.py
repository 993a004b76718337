"""Decide from a snapshot whether a running server is at fault; pure, so that every case is a test.

What counts as progress: output, batch lines, bytes moved by the processes, compilers at work. What does not: CPU or
GPU time alone, which a deadlocked collective burns as well.
"""

from __future__ import annotations

from typing import NamedTuple

from doctor.watch import states
from doctor.watch.model import Fault, Run, Settings
from doctor.watch.tree import Member

STOPPED_SECONDS = 4.0
"""A process in state T this long was not stopped by a debugger's breakpoint passing by."""

CRASH_SECONDS = 12.0
"""SGLang's own end after a lost scheduler takes 6 to 8 s (0.5.15.post1 and 0.5.23)."""

NOTICE_SECONDS = 4.0
"""After a lost detokenizer it takes 66 s (both versions), but what it says of it comes within 2 s."""

SUSPECT_SECONDS = 4.0
"""Requests without a batch line for this long are looked into with a health probe."""

PATIENCE = {
    states.ARGS: 180.0,
    states.IMPORT: 300.0,
    states.DIST_INIT: 300.0,
    states.LOAD: 600.0,
    states.KV_POOL: 180.0,
    states.CAPTURE: 900.0,
    states.WARM_UP: 150.0,
}
"""Seconds without output or other progress in each phase of a start, multiplied by --patience.

Imports from a cold network disk took minutes in threads; peers may start minutes later; a shard of a slow disk has no
line; captures with torch.compile print per batch size; SGLang itself gives its warm-up 120 s.
"""

DETOUR_SECONDS = 31.0
"""SGLang's warm-up request comes 1 s after the HTTP server is up, and again after every failure (0.4.6 to 0.5.23).

The rule that names the proxy (NET006) wants a `/health` answered with 503 at least 30 s after it was up.
"""
_LINE_SECONDS = 1.0
"""After that answer its line is in the log for the rules, and is not taken for progress."""

COMPILERS = ("nvcc", "ninja", "cicc", "ptxas", "cudafe++", "cc1plus", "c++", "g++", "gcc", "clang", "hipcc", "ld")


class Activity(NamedTuple):
    """What the processes do: whether a compiler runs, and when they last moved bytes (files, sockets, pipes)."""

    compiling: bool = False
    last_moved: float = 0.0


class View(NamedTuple):
    """A snapshot: `stopped` since when each stopped process is, `clients` connections to the server's port.

    `memory` is why the host guard halted the server, "" when it did not; `proxy` names the variable whose proxy gets
    the server's requests to itself.
    """

    now: float
    state: str
    run: Run
    members: tuple[Member, ...]
    stopped: dict[int, float]
    activity: Activity
    clients: int | None
    running: int
    memory: str = ""
    proxy: str = ""


def find_fault(view: View, settings: Settings) -> Fault | None:
    """Give the most telling fault of a server that still has processes."""
    return (
        _find_memory(view)
        or _find_lost_rank(view)
        or _find_stopped(view)
        or _find_port_clash(view)
        or _find_failed_check(view)
        or _find_detour(view)
        or _find_silence(view, settings)
        or _find_stall(view, settings)
    )


def is_suspect(view: View) -> bool:
    """Tell whether requests wait without a sign of progress, so that a health probe is due."""
    return (
        view.state in states.UP
        and view.now - view.run.last_batch > SUSPECT_SECONDS
        and bool(view.clients if view.clients is not None else view.running)
    )


def _find_memory(view: View) -> Fault | None:
    return Fault("host-memory", view.memory, view.now) if view.memory else None


def _find_lost_rank(view: View) -> Fault | None:
    """A scheduler or detokenizer is gone while the main process goes on."""
    if view.state == states.DRAINING or view.run.exited is not None or is_shutting_down(view.run):
        return None
    run = view.run
    ready = run.started + run.ready_after if run.ready_after is not None else view.now
    # workers without a title may be helpers of a start; once it serves, they are the ranks
    lost = [death for death in run.deaths if death.title.startswith("sglang::") or death.time > ready]
    if not lost or view.now - lost[0].time < 1.0:
        return None
    first = lost[0]
    how = f"was ended by signal {-first.code}" if first.code is not None and first.code < 0 else "is gone"
    name = first.title if first.title.startswith("sglang::") else "a worker process"
    patience = NOTICE_SECONDS if name.startswith("sglang::detokenizer") else CRASH_SECONDS
    return Fault("rank-dead", f"{name} (pid {first.pid}) {how}", view.now, (first.pid,), patience)


def is_shutting_down(run: Run) -> bool:
    """Tell whether SGLang said that it was asked to stop."""
    return "shutdown begin" in run.marks


def _find_stopped(view: View) -> Fault | None:
    for member in view.members:
        since = view.stopped.get(member.pid)
        if since is not None and view.now - since >= STOPPED_SECONDS:
            words = f"{member.title or 'a process'} (pid {member.pid}) is stopped (state {member.stat.state})"
            return Fault("stopped", words, view.now, (member.pid,))
    return None


def _find_port_clash(view: View) -> Fault | None:
    if "warmup failed" not in view.run.marks:
        return None
    return Fault("port-taken", "the HTTP port is taken: the server was loaded and cannot be reached", view.now, (), 3.0)


def _find_failed_check(view: View) -> Fault | None:
    check = view.run.readiness
    if check.state != "failed" or view.state != states.STARTING:
        return None
    return Fault(check.kind, check.words, view.now)


def is_detoured(view: View) -> bool:
    """Tell whether the warm-up request has gone to a proxy and not come back: nothing has reached the server."""
    run = view.run
    if not view.proxy or view.state != states.STARTING or run.listening is None:
        return False
    return not run.arrived and "serving begin" not in run.marks and view.now - run.listening >= DETOUR_SECONDS


def _find_detour(view: View) -> Fault | None:
    health = view.run.health
    if not is_detoured(view) or health is None or view.now - health.time < _LINE_SECONDS:
        return None
    words = (
        f"the server listens for {DETOUR_SECONDS:.0f} s, and its request to itself went to the proxy in {view.proxy}"
    )
    return Fault("silent-start", words, view.now)


def _find_silence(view: View, settings: Settings) -> Fault | None:
    """A start that shows no progress for longer than its phase may take."""
    if view.state != states.STARTING or view.activity.compiling or view.run.readiness.state == "asked":
        return None
    limit = PATIENCE[view.run.phase] * settings.patience
    last = max(view.run.last_output, view.activity.last_moved if view.run.phase != states.WARM_UP else 0.0)
    if view.now - last < limit:
        return None
    return Fault("silent-start", f"no progress for {limit:.0f} s in phase {view.run.phase}", view.now)


def _find_stall(view: View, settings: Settings) -> Fault | None:
    """Requests wait, no batch was run, and a health probe sent since then got no answer either."""
    run = view.run
    if view.state not in states.UP or view.activity.compiling:
        return None
    health = run.health
    waited = view.now - run.last_batch
    asked_since = health is not None and health.time - health.seconds >= run.last_batch
    pending = run.health_asked > run.last_batch
    if pending and is_suspect(view) and waited >= settings.stall_seconds:
        return Fault("stalled", f"requests wait and no batch was run for {waited:.0f} s", view.now)
    failed = health is not None and asked_since and health.status != 200
    if failed and health is not None and health.seconds >= 15.0 and waited >= settings.stall_seconds:
        return Fault("unhealthy", f"/health got no token within {health.seconds:.0f} s", view.now)
    return None

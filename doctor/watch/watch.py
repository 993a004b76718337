"""Put the parts of `doctor run` together, run them, and give the exit code."""

from __future__ import annotations

import argparse
import os
import sys
import time

from doctor.watch import states
from doctor.watch.evidence import find_base
from doctor.watch.guardian import Guardian
from doctor.watch.journal import Journal
from doctor.watch.launch import Launch
from doctor.watch.logfile import RotatedLog
from doctor.watch.loop import Inbox, Loop
from doctor.watch.model import Run, Settings
from doctor.watch.notify import Notifier
from doctor.watch.process import Process, become_subreaper
from doctor.watch.pump import Pump, widen_pipe, write_through
from doctor.watch.screen import Screen
from doctor.watch.server import Desk, Server

_SWITCH_SECONDS = 0.001
"""Interpreter turns: the pump must not wait 5 ms (the default) for the reader at every chunk."""

_DRAIN_SECONDS = 10.0


def watch(launch: Launch, settings: Settings, options: argparse.Namespace) -> int:
    """Start and watch a server until it has ended for good."""
    screen = Screen(sys.stderr.fileno(), sys.stderr.isatty() and os.environ.get("TERM") != "dumb")
    journal = Journal(options.events)
    log = RotatedLog(options.log_dir, read_size(options.log_size), screen.say) if options.log_dir else None
    address = None
    if options.listen:
        from doctor.watch.listen import parse_address

        address = parse_address(options.listen)
    source, sink = os.pipe()
    widen_pipe(sink)
    become_subreaper()
    guardian = Guardian(source, settings.keep)  # forks: nothing before this line may start a thread
    sys.setswitchinterval(_SWITCH_SECONDS)
    inbox = Inbox()
    desk = Desk(screen, journal, find_base(options.evidence, options.log_dir, os.environ))
    server = Server(launch, settings, Process(sink, guardian), desk, inbox.post)
    sinks = [screen.wrap(write_through(sys.stdout.fileno())), *([log.write] if log else []), server.live.offer]
    pump = Pump(source, (*sinks, server.keep_tail))
    pump.start()
    loop = Loop(server, settings, inbox, Notifier(os.environ))
    listener = None
    try:
        if address:
            from doctor.watch.listen import listen

            listener = listen(address, lambda: loop.status)
        loop.run()
    finally:
        if listener:
            listener.shutdown()
        pump.stop()
        pump.join(_DRAIN_SECONDS)
        run, state = loop.supervisor.run, loop.supervisor.machine.state
        server.finish(state == states.STOPPED, time.monotonic() - run.started)
        server.close()
        screen.clear()
        guardian.dismiss()
        if log:
            log.close()
            if log.lost:
                screen.say(f"{log.lost / 2**20:.1f} MiB of output are missing in {options.log_dir}")
    code = find_exit_code(state, run)
    journal.write("end", state=state, code=code, skipped=server.live.skipped)
    journal.close()
    return code


def read_size(text: str) -> int:
    """Read --log-size in bytes."""
    from doctor.memory.units import parse_size

    return parse_size(text)


def find_exit_code(state: str, run: Run) -> int:
    """Give the server's code, 128 + signal; a server that failed never gives 0."""
    code = run.code
    if code is None:
        return 137
    if code < 0:
        return 128 - code
    return 1 if state == states.FAILED and code == 0 else code

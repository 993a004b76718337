"""A world of the supervisor that follows a script: no process, no clock, no sleep."""

from doctor.diagnosis.observe import Record
from doctor.logs.events.types import PhaseMark
from doctor.watch.liveness import Activity
from doctor.watch.model import Answer, Readiness, Settings
from doctor.watch.policy import Ending
from doctor.watch.supervisor import Supervisor
from doctor.watch.tree import Member, Stat

MAIN, SCHEDULER, DETOKENIZER = 100, 101, 102
RECORD = Record(0, ((1, ""),))


def make_member(pid, title, state="S", code=0):
    return Member(pid, title, Stat(MAIN if pid != MAIN else 1, MAIN, state, pid, 0.0, 0, code))


class FakeClock:
    def __init__(self):
        self.now = 1000.0

    def __call__(self):
        return self.now


class FakeWorld:
    def __init__(self):
        self.ending = Ending("HOST001 x", "maybe", mendable=False, was_ready=True)
        self.held = ""
        self.detour = ""
        self.starts = []
        self.said = []
        self.signals = []
        self.asked = []
        self.collected = []
        self.explained = 0
        self.adopted = None
        self.revive()

    def revive(self):
        self.code = None
        self.people = {
            MAIN: make_member(MAIN, "python -m sglang.launch_server"),
            SCHEDULER: make_member(SCHEDULER, "sglang::scheduler"),
            DETOKENIZER: make_member(DETOKENIZER, "sglang::detokenizer"),
        }
        self.bytes = 0
        self.lines = 0
        self.requests = 0
        self.connections = 0
        self.moved = 1000.0
        self.compiling = False

    def start(self, mended):
        self.starts.append(mended)
        self.revive()
        return MAIN

    def members(self):
        return tuple(self.people.values())

    def poll(self):
        return self.code

    def signal_main(self, number):
        self.signals.append(("main", number))

    def signal_all(self, number):
        self.signals.append(("all", number))

    def adopt(self, pid):
        self.adopted = pid

    def output(self):
        return self.bytes

    def batches(self):
        return self.lines, self.requests

    def activity(self):
        return Activity(self.compiling, self.moved)

    def clients(self):
        return self.connections

    def proxy(self):
        return self.detour

    def ask(self, kind):
        self.asked.append(kind)
        return True

    def collect(self, fault):
        self.collected.append(fault.kind)

    def explain(self, run):
        assert run.gone is not None
        self.explained += 1
        return self.ending

    def held_gpus(self):
        return self.held

    def say(self, text):
        self.said.append(text)


class History:
    """One scripted life of a server."""

    def __init__(self, **settings):
        self.clock = FakeClock()
        self.world = FakeWorld()
        self.arrows = []
        self.supervisor = Supervisor(self.world, Settings(**settings), self.clock, self.arrows.append)
        self.supervisor.begin()

    @property
    def state(self):
        return self.supervisor.machine.state

    @property
    def run(self):
        return self.supervisor.run

    def wait(self, seconds, step=0.5):
        """Let time pass, looking every half second."""
        end = self.clock.now + seconds
        while self.clock.now < end:
            self.clock.now = min(self.clock.now + step, end)
            self.supervisor.tick()
        return self

    def tick(self):
        self.supervisor.tick()
        return self

    def mark(self, *marks):
        for mark in marks:
            phase, edge = mark.split()
            self.supervisor.on_event(PhaseMark(RECORD, phase, edge))
            self.world.bytes += 100
        return self.tick()

    def fire_up(self):
        return self.mark("warmup begin", "warmup http", "serving begin")

    def become_ready(self):
        self.fire_up()
        self.supervisor.on_readiness(Readiness("passed", self.clock.now, "", "fired up"))
        return self.tick()

    def serve(self):
        """Become ready and run requests."""
        self.become_ready().wait(1.5)
        self.world.connections = 2
        self.batch()
        return self.tick()

    def batch(self):
        self.world.lines += 1
        self.world.requests = 2
        return self.tick()

    def answer(self, status, seconds=1.0):
        self.supervisor.on_answer(Answer("/health", status, seconds, self.clock.now))
        return self.tick()

    def end(self, code):
        """The whole tree is gone."""
        self.world.people.clear()
        self.world.code = code
        return self.tick()

    def lose(self, pid, code=None):
        del self.world.people[pid]
        if code is not None:
            self.supervisor.on_exit(pid, code)
        return self.tick()

    def stop_process(self, pid):
        self.world.people[pid] = make_member(pid, self.world.people[pid].title, "T")
        return self.tick()

    def resume_process(self, pid):
        self.world.people[pid] = make_member(pid, self.world.people[pid].title, "S")
        return self.tick()

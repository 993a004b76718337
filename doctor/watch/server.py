"""The real world of the supervisor: one server on this machine, and everything that looks at it."""

from __future__ import annotations

import collections
import os
import sys
import threading
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from doctor.watch import evidence, forecast, gpu
from doctor.watch.findings import join, list_facts
from doctor.watch.forecast import Forecast, Step
from doctor.watch.guard import Guard
from doctor.watch.journal import Journal
from doctor.watch.kernel import read_kernel_log
from doctor.watch.launch import Launch, find_address, find_proxy, mend
from doctor.watch.live import Live
from doctor.watch.liveness import Activity
from doctor.watch.memory_fixes import suggest_fixes
from doctor.watch.model import Answer, Fault, Readiness, Run, Settings
from doctor.watch.policy import Ending
from doctor.watch.prober import Prober, Target, fetch
from doctor.watch.process import Process
from doctor.watch.screen import Screen
from doctor.watch.sockets import count_clients
from doctor.watch.status import Status
from doctor.watch.tree import Member, choose_ranks

if TYPE_CHECKING:
    from doctor.diagnosis.model import Report
    from doctor.logs.events.types import Event

_TAIL_BYTES = 1 << 18
"""Output kept for the evidence."""

_SETTLE_SECONDS = 1.0
"""How long the report waits for the reader: the diagnosis is due within 2 s of the end."""


class Message(NamedTuple):
    """Something that happened in another thread: event, answer, readiness, evidence, memory or signal, and its data."""

    kind: str
    data: Any


class Desk(NamedTuple):
    """Where things are said and written; `evidence` is the folder of evidence folders."""

    screen: Screen
    journal: Journal
    evidence: str


class Server:
    """Implements `World`; what other threads find out goes to `post`."""

    def __init__(
        self, launch: Launch, settings: Settings, process: Process, desk: Desk, post: Callable[[Message], None]
    ) -> None:
        self._launch = launch
        self._process = process
        self.desk = desk
        self._post = post
        self._environment = dict(os.environ)
        self._known: Mapping[str, Any] = {}
        self._steps: list[Step] = []
        self._skipped = 0  # layers without experts, which stay on the GPU
        self._tail: collections.deque[bytes] = collections.deque()
        self._tail_size = 0
        self.live = Live(self._on_event)
        self.prober = Prober(self._on_reply)
        self.gpus = gpu.GpuWatch()
        self.guard = Guard(settings.reserve, self._halt)
        self.guard.start()
        self.report: Report | None = None
        self.fingerprint = ""
        self._room = 0  # bytes that an offload may take
        self._is_loading = False
        self.forecast: Forecast | None = None

    # -- what the supervisor asks for

    def start(self, mended: bool) -> int:
        """Start the server; when `mended`, with the safe edits of the last report."""
        if mended and (better := self._mend()):
            self._launch = better
            self.say(f"starting the corrected command: {better.text}")
        self.live.restart()
        self.prober.forget()
        self._known, self._steps, self._skipped, self.forecast = {}, [], 0, None
        self.gpus.mark()
        self._process.start(self._launch, self._environment)
        self.guard.arm(self._process.main)
        self._is_loading, self._room = False, self.guard.memory.available - self.guard.reserve
        if self._launch.command is None:
            self.say(
                "this does not look like an SGLang launch; its processes, memory and output are watched all the same"
            )
        self.desk.journal.write("start", command=self._launch.text, pid=self._process.main)
        return self._process.main

    def members(self) -> tuple[Member, ...]:
        """Look at the processes."""
        members = self._process.scan()
        self.gpus.note(member.pid for member in members)
        return members

    def poll(self) -> int | None:
        """Give the main process's return code."""
        return self._process.poll()

    def signal_main(self, number: int) -> None:
        """Signal the main process."""
        self._process.signal_main(number)

    def signal_all(self, number: int) -> None:
        """Signal every process."""
        self._process.signal_all(number)

    def adopt(self, pid: int) -> None:
        """Take another process for the main one."""
        self._process.adopt(pid)

    def output(self) -> int:
        """Give the bytes of output so far."""
        return self.live.bytes

    def batches(self) -> tuple[int, int]:
        """Give the number of batch lines, and the requests of the last one."""
        batch = self.live.batch
        return batch.lines, batch.running + batch.queued

    def activity(self) -> Activity:
        """Say what the processes do."""
        return self._process.look()

    def clients(self) -> int | None:
        """Count connections to the server's port."""
        return count_clients(find_address(self._launch.arguments, self._known).port)

    def proxy(self) -> str:
        """Name the variable whose proxy gets the server's requests to itself."""
        if self._known.get("checkpoint_engine_wait_weights_before_ready"):
            return ""  # the warm-up waits for weights that somebody sends
        address = find_address(self._launch.arguments, self._known)
        return find_proxy({**self._environment, **self._launch.variables}, address)

    def ask(self, kind: str) -> bool:
        """Send a probe."""
        return self.prober.ask(kind, self._target())

    def collect(self, fault: Fault) -> None:
        """Collect evidence in a thread."""
        self.desk.journal.write("fault", kind=fault.kind, words=fault.words, pids=list(fault.pids))
        scene = self._look(fault)
        threading.Thread(target=self._collect, args=(scene,), name="evidence", daemon=True).start()

    def explain(self, run: Run) -> Ending:
        """Diagnose the end and print the report."""
        self._process.clean_up()
        report = self._diagnose(run)
        self.report = report
        self._print(report)
        root = report.root
        name = f"{root.rule} {root.name}" if root else f"code {run.code}"
        self.desk.journal.write(
            "diagnosis", verdict=report.verdict, rule=root.rule if root else None, title=root.title if root else None,
            cause=root.cause if root else None, code=run.code, evidence=run.evidence, phase=report.phase,
        )  # fmt: skip
        foreign = self._launch.command is None and not run.marks
        recoverable = "never" if foreign else root.recoverable if root else "unknown"
        self.fingerprint = name
        return Ending(name, recoverable, self._mend() is not None, run.ready_after is not None)

    def held_gpus(self) -> str:
        """Say which GPU memory is still held."""
        return self.gpus.describe_held()

    def say(self, text: str) -> None:
        """Tell the user, and the event stream."""
        self.desk.screen.say(text)
        self.desk.journal.write("note", text=text)

    # -- what the loop asks for

    @property
    def main(self) -> int:
        """The id of the main process."""
        return self._process.main

    @property
    def last_members(self) -> tuple[Member, ...]:
        """The processes of the last look."""
        return self._process.members

    def describe(self, state: str, run: Run) -> Status:
        """Take a snapshot of everything that is shown."""
        members, memory, batch = self._process.members, self.guard.memory, self.live.batch
        gpu_used, gpu_total = self.gpus.measure()
        return Status(
            state,
            run.phase,
            time.monotonic() - run.started,
            len(choose_ranks(members)),
            len(members),
            sum(member.stat.rss for member in members),
            memory.available,
            self.guard.reserve,
            gpu_used,
            gpu_total,
            batch.throughput,
            batch.running,
            batch.queued,
            run.ready_after,
            {},
            self.fingerprint,
            0.0,
            self.forecast.words if self.forecast else "",
        )

    def finish(self, asked: bool, seconds: float) -> None:
        """Clean up after the last server, and say what was served when it was stopped as asked."""
        removed = self._process.clean_up()
        if asked:
            self.say(f"it ran for {seconds:.0f} s and printed {self.live.batch.lines} batch lines")
        if removed:
            self.desk.journal.write("removed", paths=list(removed))
        if self.live.skipped:
            self.say(f"{self.live.skipped / 2**20:.0f} MiB of output were not analysed (they came too fast)")

    # -- what other threads do

    def keep_tail(self, chunk: bytes) -> None:
        """Keep the end of the output for the evidence (a sink of the pump)."""
        chunk = chunk[-_TAIL_BYTES:]
        self._tail.append(chunk)
        self._tail_size += len(chunk)
        while self._tail_size > 2 * _TAIL_BYTES and len(self._tail) > 1:
            self._tail_size -= len(self._tail.popleft())

    def _on_event(self, event: Event) -> None:
        from doctor.logs.events.types import OffloadStep, PhaseMark, ServerArgs

        if isinstance(event, ServerArgs):
            self._known = dict(event.values)
        elif isinstance(event, OffloadStep) and event.params:
            self._predict(event.layer)
        elif isinstance(event, OffloadStep):
            self._skipped += 1
        elif isinstance(event, PhaseMark) and (event.phase, event.edge) == ("load", "begin") and not self._is_loading:
            # Python and torch have taken their share by now
            self._is_loading, self._room = True, self.guard.look() - self.guard.reserve
        self._post(Message("event", event))

    def _predict(self, layer: int) -> None:
        """Tell once when the offload will not fit, and halt the server before it takes what is not there."""
        available = self.guard.look()
        self._steps.append(Step(layer, available))
        layers = forecast.read_layer_count(self._known.get("model_path"))
        total = forecast.count_layers(self._known, layers) - self._skipped
        found = forecast.predict(self._steps, total, self.guard.reserve)
        if found and found.stops_at is not None and (self.forecast is None or self.forecast.stops_at is None):
            self.say(f"forecast: {found.words}")
        self.forecast = found
        if found and (reason := found.tell_end(available, self.guard.reserve, len(self._steps))):
            self.guard.act(reason)

    def _on_reply(self, reply: Answer | Readiness) -> None:
        self._post(Message("answer" if isinstance(reply, Answer) else "readiness", reply))

    def _halt(self, reason: str) -> None:
        self._process.halt()
        done = f", after {len(self._steps)} offloaded layers" if self._steps else ""
        ahead = f"; {self.forecast.words}" if self.forecast else ""
        self._post(Message("memory", f"host memory runs out: {reason}{done}{ahead}"))

    def _collect(self, scene: evidence.Scene) -> None:
        folder = evidence.collect(self.desk.evidence, scene)
        if folder:
            self.say(f"evidence: {folder}")
        self._post(Message("evidence", folder))

    # -- helpers

    def _target(self) -> Target:
        arguments = self._launch.arguments
        model = self._known.get("model_path") or arguments.get("model_path")
        pids = tuple(member.pid for member in self._process.members)
        return Target(find_address(arguments, self._known), pids, model if isinstance(model, str) else "")

    def _look(self, fault: Fault) -> evidence.Scene:
        address = find_address(self._launch.arguments, self._known)
        # a start prints its arguments, and its log must not show an answered request that nobody sent
        asks = fault.kind != "silent-start"
        return evidence.Scene(
            fault,
            self._process.members,
            b"".join(self._tail),
            self.guard.describe() + (f"{self.forecast.words}\n" if self.forecast else ""),
            "\n".join(gpu.describe(self.gpus.sample)),
            read_kernel_log(time.monotonic() - 3600.0),
            {**self._environment, **self._launch.variables},
            self._launch.argv[0],
            lambda: fetch(address, "GET", "/server_info", 3.0) if asks else None,
        )

    def _diagnose(self, run: Run) -> Report:
        from doctor.diagnosis.explain import Question

        self.live.settle(_SETTLE_SECONDS)
        facts = list_facts(run, self.guard.kills, asked=run.stop is not None)
        command = self._launch.text if self._launch.command else None
        report = self.live.diagnose(Question(command, facts), read_kernel_log(run.started))
        own = suggest_fixes(self._launch, self._room, self.forecast, report.sglang_version)
        # what was measured here is better than the rule's general advice
        extra = [fix for fix in report.root.fixes if not (own and fix.command)] if report.root else []
        return join(report, run, (*own, *extra) if run.fault and run.fault.kind == "host-memory" else ())

    def _print(self, report: Report) -> None:
        from doctor.report.interface import find_target, load_renderer

        text = load_renderer("text").render(report, find_target(sys.stderr, os.environ))
        self.desk.screen.show(f"\n{text}\n")

    def _mend(self) -> Launch | None:
        root = self.report.root if self.report else None
        for fix in root.fixes if root else ():
            edits = [edit for edit in fix.edits if edit.kind in ("flag", "env")]
            if fix.safety == "safe" and edits:
                return mend(self._launch, edits, self.report.sglang_version if self.report else None)
        return None

    def close(self) -> None:
        """End the helpers."""
        self.live.close()
        self.guard.stop()
        self.gpus.stop()

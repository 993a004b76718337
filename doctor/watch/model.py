"""What is known of one start of a server; frozen, replaced as it goes on."""

from __future__ import annotations

from typing import NamedTuple


class Fault(NamedTuple):
    """Something wrong with a server: `kind` (see findings.py), in words, when, and the processes it was seen at.

    `ends_itself` is how many seconds SGLang gets to end by itself before the doctor ends it.
    """

    kind: str
    words: str
    time: float
    pids: tuple[int, ...] = ()
    ends_itself: float = 0.0


class Death(NamedTuple):
    """The end of one process: `code` as waitpid gives it (-9: SIGKILL), None when nobody saw it."""

    pid: int
    title: str
    code: int | None
    time: float


class Stop(NamedTuple):
    """An order to end: who gave it (user or doctor), since when, and when SIGKILL follows.

    `signal` is what the user sent, 0 when the doctor decided.
    """

    by: str
    signal: int
    since: float
    kill_at: float
    killed: bool = False


class Answer(NamedTuple):
    """What an HTTP probe brought back: `status` 0 when there was no answer, `reason` then says why."""

    kind: str
    status: int
    seconds: float
    time: float
    body: bytes = b""
    reason: str = ""


class Readiness(NamedTuple):
    """The check after "fired up": `state` is "", "asked", "passed" or "failed".

    A failed one names the `kind` of fault in `words`; `warning` is what looks wrong in a server that serves.
    """

    state: str = ""
    since: float = 0.0
    kind: str = ""
    words: str = ""
    warning: str = ""


class Run(NamedTuple):
    """One start. Times are seconds of the injected clock; `marks` are "phase edge" of the lines seen so far.

    `code` is the return code of the process that was started, `exited` when it ended. `batches` is the number of batch
    lines when the last change was seen at `last_batch`; `output` bytes and `last_output` likewise. `most_memory` is the
    largest resident size of one process, in bytes; `own` until when batches may be due to the doctor's own requests.
    The HTTP server runs since `listening`; `arrived`: a connection to it, or output, was seen after that.
    """

    number: int
    started: float
    phase: str = "args"
    marks: frozenset[str] = frozenset()
    output: int = 0
    last_output: float = 0.0
    batches: int = 0
    last_batch: float = 0.0
    ready_after: float | None = None
    readiness: Readiness = Readiness()
    health: Answer | None = None
    health_asked: float = 0.0
    fault: Fault | None = None
    evidence: str = ""
    evidence_done: bool = False
    stop: Stop | None = None
    code: int | None = None
    exited: float | None = None
    gone: float | None = None
    deaths: tuple[Death, ...] = ()
    answered: bool = False
    own: float = 0.0
    listening: float | None = None
    arrived: bool = False
    pid: int = 0
    most_memory: int = 0


class Settings(NamedTuple):
    """The choices of the command line; seconds and bytes.

    `reserve` None: a default from the size of the machine; 0 switches the guard off.
    """

    restart: str = "on-failure"
    apply_safe: bool = False
    stop_seconds: float = 30.0
    stall_seconds: float = 25.0
    patience: float = 1.0
    reserve: int | None = None
    keep: bool = False

"""Read the output while it is written, with the reader of `explain`, in a thread that may lag but never brakes."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from doctor.diagnosis.explain import Question
    from doctor.diagnosis.model import Report
    from doctor.logs.events.types import Event
    from doctor.logs.lines import Block

MOST_BYTES = 16 << 20
"""Output waiting to be read; beyond it is skipped and counted (a flood of 200 MB/s is not a log)."""

_BATCH_SECONDS = 0.2
"""Chunks are collected for this long: at 1,000 lines a second that is one turn for two hundred lines."""

_QUIET_SECONDS = 0.5
"""After this much silence an open record counts as whole, as in `explain --follow`."""

_LOOK_BACK = 64
"""Lines searched backwards for a batch line."""


class Batch(NamedTuple):
    """The newest batch line: requests running and queued, tokens per second, and the number of such lines."""

    running: int = 0
    queued: int = 0
    throughput: float = 0.0
    lines: int = 0


class Live:
    """Takes the output of one server after another; `notify` gets each event in the reading thread."""

    def __init__(self, notify: Callable[[Event], None]) -> None:
        self._notify = notify
        self._chunks: deque[bytes] = deque()
        self._waiting = 0
        self._ready = threading.Condition()
        self._busy = False
        self._closing = False
        self._loading = threading.Lock()
        self._reader: _Reader | None = None
        self.skipped = 0
        self.bytes = 0
        self.batch = Batch()
        threading.Thread(target=self._run, name="live", daemon=True).start()

    def offer(self, chunk: bytes) -> None:
        """Take output if there is room; never waits."""
        self.bytes += len(chunk)
        with self._ready:
            if self._waiting + len(chunk) > MOST_BYTES:
                self.skipped += len(chunk)
                return
            self._chunks.append(chunk)
            self._waiting += len(chunk)
            self._ready.notify()

    def restart(self) -> None:
        """Begin a new server: what the old one wrote does not count any more."""
        self.settle(0.0)
        with self._ready:
            self._chunks.clear()
            self._waiting = 0
            self.batch = Batch()
        with self._loading:
            self._reader = None

    def settle(self, seconds: float) -> bool:
        """Wait until everything taken has been read; False when it took longer."""
        with self._ready:
            return self._ready.wait_for(lambda: not self._chunks and not self._busy, seconds)

    def diagnose(self, question: Question, kernel: bytes = b"") -> Report:
        """Give the report on everything read, with the kernel's record of the same time behind it."""
        from doctor.diagnosis.explain import diagnose

        reader = self._find_reader()
        return diagnose(reader.index.rules, reader.observe(kernel), question)

    def close(self) -> None:
        """End the thread."""
        with self._ready:
            self._closing = True
            self._ready.notify_all()

    def _run(self) -> None:
        while not self._closing:
            chunks = self._take()
            if chunks is None:
                return
            reader = self._find_reader()
            if chunks:
                reader.feed(chunks)
            else:
                reader.flush()
            with self._ready:
                self._busy = False
                self._ready.notify_all()

    def _find_reader(self) -> _Reader:
        """Give the reader of this server; loading the rules takes 0.3 s, so `offer` is not kept waiting meanwhile."""
        with self._loading:
            if self._reader is None:
                self._reader = _Reader(self._notify, self._keep_batch)
            return self._reader

    def _take(self) -> list[bytes] | None:
        """Wait for output; an empty list after silence, None at the end."""
        with self._ready:
            if not self._chunks:
                self._ready.wait(_QUIET_SECONDS)
            elif not self._closing:
                self._busy = True
        if self._chunks:
            threading.Event().wait(_BATCH_SECONDS)
        with self._ready:
            if self._closing:
                return None
            self._busy = True
            chunks = list(self._chunks)
            self._chunks.clear()
            self._waiting = 0
            return chunks

    def _keep_batch(self, batch: Batch) -> None:
        self.batch = batch._replace(lines=self.batch.lines + batch.lines)


class _Reader:
    """One server's output on its way through the reader of `explain`; used by one thread at a time."""

    def __init__(self, notify: Callable[[Event], None], keep_batch: Callable[[Batch], None]) -> None:
        from doctor.diagnosis.load import load_pack
        from doctor.diagnosis.match import Index
        from doctor.logs.lines import LineCutter
        from doctor.watch.observer import LiveObserver

        self.index = Index(load_pack())
        self._cutter = LineCutter()
        self._observer = LiveObserver(self.index, notify)
        self._keep_batch = keep_batch
        self._lock = threading.Lock()
        self._size = 0
        self._observer.open_file("server output")

    def feed(self, chunks: list[bytes]) -> None:
        """Read chunks."""
        with self._lock:
            for chunk in chunks:
                self._size += len(chunk)
                for block in self._cutter.feed(chunk):
                    self._observer.feed(block)
                    self._look_for_batch(block)

    def flush(self) -> None:
        """Let the open record count as whole."""
        with self._lock:
            self._observer.flush()

    def observe(self, kernel: bytes) -> Any:
        """Give the observations, and read the kernel's record as a file of its own."""
        from doctor.logs.lines import read_blocks

        with self._lock:
            for block in self._cutter.finish():
                self._observer.feed(block)
            self._observer.close_file(self._size)
            if kernel:
                self._observer.open_file("kernel log")
                for block in read_blocks([kernel]):
                    self._observer.feed(block)
                self._observer.close_file(len(kernel))
            return self._observer.finish()

    def _look_for_batch(self, block: Block) -> None:
        from doctor.logs.events import batch
        from doctor.logs.records import RawRecord, parse_record

        for line in reversed(block.text.rsplit(b"\n", _LOOK_BACK)[-_LOOK_BACK:]):
            if b" batch" in line[:160] and b"#running-req" in line[:1000]:
                for event in batch.parse(parse_record(RawRecord("", [(0, line)]), 0)):
                    self._keep_batch(_read_batch(event.values))
                return


def _read_batch(values: Any) -> Batch:
    throughput = values.get("gen throughput (token/s)", values.get("input throughput (token/s)", 0.0))
    new = int(values.get("#new-seq", 0))
    return Batch(int(values.get("#running-req", 0)) + new, int(values.get("#queue-req", 0)), throughput, 1)

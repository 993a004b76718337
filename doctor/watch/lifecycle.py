"""How far a start has come, from the marks in its output."""

from __future__ import annotations

from doctor.diagnosis.observe import following_phase
from doctor.logs.events.types import PhaseMark
from doctor.watch import states
from doctor.watch.model import Run


def find_phase(mark: PhaseMark, now: str) -> str:
    """Give the phase after a mark; ranks and draft models lag behind, so it never goes back."""
    if mark.edge == "crash":
        return now
    phase = following_phase(mark)
    if phase not in states.PHASES or now not in states.PHASES:
        return now
    return max(now, phase, key=states.PHASES.index)


def is_announced(run: Run) -> bool:
    """Tell whether SGLang says that it is ready, and means itself.

    A server whose port is taken prints "fired up" when the other one answers its warm-up request; so where the HTTP
    server was started in this output it must also have bound its port (`Uvicorn running on`).
    """
    if "serving begin" not in run.marks or "warmup failed" in run.marks:
        return False
    return "warmup http" in run.marks or "warmup begin" not in run.marks


def note_progress(run: Run, now: float, output: int, batches: int) -> Run:
    """Note new output and new batch lines."""
    if output != run.output:
        run = run._replace(output=output, last_output=now)
    if batches != run.batches:
        run = run._replace(batches=batches, last_batch=now)
    return run

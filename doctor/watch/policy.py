"""Whether a server that failed is started again: by cause, with growing pauses, within a budget."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from doctor.watch.model import Settings

BUDGET = {"maybe": 3, "unknown": 3}
"""Restarts of one fingerprint within WINDOW_SECONDS, by what the rule says of its cause."""

WINDOW_SECONDS = 3600.0
FIRST_PAUSE_SECONDS = 5.0
"""Ports stay in TIME_WAIT and GPU memory with a dying process for seconds."""

LONGEST_PAUSE_SECONDS = 300.0


class Ending(NamedTuple):
    """How a server ended: `fingerprint` names the cause, `recoverable` is the rule's word (never, maybe, unknown).

    `mendable`: the cause has a fix that is safe to apply; `was_ready`: it had served before.
    """

    fingerprint: str
    recoverable: str
    mendable: bool
    was_ready: bool


class Past(NamedTuple):
    """An earlier failure."""

    time: float
    fingerprint: str


class Decision(NamedTuple):
    """What follows: `action` is restart, mend (restart with the safe edits) or give-up; pause in seconds."""

    action: str
    pause: float
    reason: str


def decide(ending: Ending, past: Sequence[Past], mended: bool, settings: Settings, now: float) -> Decision:
    """Decide after a failure; `past` holds the failures before this one, `mended` that edits were applied already."""
    if settings.apply_safe and ending.mendable and not mended:
        return Decision("mend", 0.0, "the cause has a safe fix")
    if settings.restart == "never":
        return Decision("give-up", 0.0, "restarts are switched off (--restart never)")
    if ending.recoverable == "never":
        return Decision("give-up", 0.0, f"{ending.fingerprint} would happen again")
    same = sum(1 for one in past if one.fingerprint == ending.fingerprint and now - one.time < WINDOW_SECONDS)
    budget = BUDGET.get(ending.recoverable, 1)
    if not ending.was_ready and ending.recoverable == "unknown":
        budget = 1
    if same >= budget:
        return Decision("give-up", 0.0, f"{ending.fingerprint} happened {same + 1} times within an hour")
    pause = min(FIRST_PAUSE_SECONDS * 2**same, LONGEST_PAUSE_SECONDS)
    return Decision("restart", pause, f"restart {same + 1} of {budget} for {ending.fingerprint}")

"""The one writer of the state."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from doctor.watch.states import ALLOWED, STARTING


class Change(NamedTuple):
    """One arrow that was taken, when (seconds of the injected clock), and why."""

    before: str
    after: str
    reason: str
    time: float


class ForbiddenChangeError(AssertionError):
    """An arrow that the table does not have: a bug of the caller, never the user's fault."""


class Machine:
    """Holds the state; every change goes through `move`, which tells `listener` about it."""

    def __init__(self, clock: Callable[[], float], listener: Callable[[Change], None]) -> None:
        self._clock = clock
        self._listener = listener
        self._state = STARTING

    @property
    def state(self) -> str:
        """The state now."""
        return self._state

    def move(self, after: str, reason: str) -> None:
        """Take an arrow of the table. Raises ForbiddenChangeError for any other."""
        if after not in ALLOWED[self._state]:
            raise ForbiddenChangeError(f"{self._state} -> {after} ({reason})")
        change = Change(self._state, after, reason, self._clock())
        self._state = after
        self._listener(change)

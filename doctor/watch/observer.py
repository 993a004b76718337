"""The observer of `explain`, which also tells of each event when it is read."""

from __future__ import annotations

from collections.abc import Callable

from doctor.diagnosis.match import Index
from doctor.diagnosis.observe import Observer
from doctor.logs.events.types import BatchStats, Event


class LiveObserver(Observer):
    """Feed it as it comes; every event but batch figures goes to `notify` at once."""

    def __init__(self, index: Index, notify: Callable[[Event], None]) -> None:
        super().__init__(index)
        self._notify = notify

    def flush(self) -> None:
        """Let records that stand open count as whole."""
        for raw in self._reader.finish():
            self._take(raw)

    def _keep(self, event: Event, chars: int) -> None:
        super()._keep(event, chars)
        if not isinstance(event, BatchStats):
            self._notify(event)

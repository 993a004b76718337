"""One module per kind of event: `KEYWORDS` that may announce it, and `parse(record)` that yields it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from doctor.logs.events.types import Event
from doctor.logs.records import Record


class EventParser(NamedTuple):
    """A discovered event module."""

    name: str
    keywords: tuple[bytes, ...]
    parse: Callable[[Record], Iterator[Event]]


def load_parsers() -> tuple[EventParser, ...]:
    """Import every event module beside this file, in order of name (a module without KEYWORDS is none)."""
    import importlib
    import pkgutil

    found = []
    for info in sorted(pkgutil.iter_modules(__path__), key=lambda info: info.name):
        module = importlib.import_module(f"{__name__}.{info.name}")
        if hasattr(module, "KEYWORDS"):
            found.append(EventParser(info.name, module.KEYWORDS, module.parse))
    return tuple(found)

"""One module per kind of event: `KEYWORDS` that may announce it, and `parse(record)` that yields it."""

from __future__ import annotations

import os
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
    """Import every event module beside this file, in order of name (a module without KEYWORDS is none).

    The folder is read directly: pkgutil would import inspect, a twentieth of a cold start.
    """
    import importlib

    names = sorted(
        name.removesuffix(".py")
        for name in os.listdir(os.path.dirname(__file__))
        if name.endswith(".py") and not name.startswith("_")
    )
    found = []
    for name in names:
        module = importlib.import_module(f"{__name__}.{name}")
        if hasattr(module, "KEYWORDS"):
            found.append(EventParser(name, module.KEYWORDS, module.parse))
    return tuple(found)

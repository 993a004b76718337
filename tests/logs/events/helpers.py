"""Events of a text, of one module, as the observer would get them."""

from types import ModuleType

from doctor.logs.events.types import Event
from tests.logs.helpers import read_records


def parse(module: ModuleType, text: str | bytes) -> list[Event]:
    records = read_records(text)
    return [event for record in records if mentions(module, record.text) for event in module.parse(record)]


def mentions(module: ModuleType, text: str) -> bool:
    return any(keyword in text.encode() for keyword in module.KEYWORDS)

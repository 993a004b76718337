"""Records of a text, as the rules would get them."""

from doctor.logs.fences import FenceFilter
from doctor.logs.kinds import Router
from doctor.logs.lines import read_blocks
from doctor.logs.records import Record, RecordReader, parse_record


def read_records(text: str | bytes, name: str = "server.log") -> list[Record]:
    data = text.encode() if isinstance(text, str) else text
    router, reader, fences = Router(), RecordReader(), FenceFilter(name)
    raw = []
    for block in read_blocks([data]):
        for routed in router.route(block):
            lines = routed.others
            raw += reader.feed(fences.filter(lines) if fences.is_needed(lines) else lines)
    return [parse_record(record, 0) for record in (*raw, *reader.finish())]


def read_record(text: str | bytes) -> Record:
    (record,) = read_records(text)
    return record


def list_messages(text: str | bytes) -> list[str]:
    return [record.message for record in read_records(text)]

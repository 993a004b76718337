import pytest

from doctor.logs.events import batch
from doctor.logs.records import RawRecord, Record, parse_record


def read_record(line: str) -> Record:
    """Batch lines do not go the way of other records: they are set aside before."""
    return parse_record(RawRecord("", [(1, line.encode())]), 0)


LINES = {
    "0.4.6": (
        "[2025-05-01 10:00:00 TP0] Prefill batch. #new-seq: 1, #new-token: 7, #cached-token: 0, token usage: 0.00, #running-req: 0, #queue-req: 3",
        "Prefill",
        {"#new-seq": 1, "#new-token": 7, "#cached-token": 0, "token usage": 0, "#running-req": 0, "#queue-req": 3},
        None,
    ),
    "0.5.2 with a comma at its end": (
        "[2025-09-01 10:00:00 TP0] Decode batch. #running-req: 2, #token: 40, token usage: 0.97, cuda graph: True, gen throughput (token/s): 5.33, #queue-req: 9, ",
        "Decode",
        {"#running-req": 2, "#token": 40, "token usage": 0.97, "gen throughput (token/s)": 5.33, "#queue-req": 9},
        True,
    ),
    "0.5.4 numbered": (
        "[2025-10-01 10:00:00 TP0] Decode batch [1200], #running-req: 1, #token: 40, token usage: 0.00, accept len: 2.75, cuda graph: False, #queue-req: 0, ",
        "Decode",
        {"#running-req": 1, "#token": 40, "token usage": 0, "accept len": 2.75, "#queue-req": 0},
        False,
    ),
    "0.5.23": (
        "[2026-04-24 06:29:19.123 DP1 TP0] Decode batch, #running-req: 1, #full token: 2723, full token usage: 0.01, mamba num: 2, mamba usage: 12.5%, npu graph: True, #queue-req: 0",
        "Decode",
        {
            "#running-req": 1,
            "#full token": 2723,
            "full token usage": 0.01,
            "mamba num": 2,
            "mamba usage": 12.5,
            "#queue-req": 0,
        },
        True,
    ),
}


@pytest.mark.parametrize(("line", "phase", "values", "graph"), LINES.values(), ids=LINES)
def test_batch_line(line: str, phase: str, values: dict, graph: bool | None) -> None:
    (event,) = batch.parse(read_record(line))
    assert (event.phase, event.values, event.graph) == (phase, values, graph)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("sglang-1  | ", ""),
        ("[pod/sglang-0/server] 2026-04-24T06:29:20.123Z ", ""),
        ("12:", ""),
        ('{"log":"', '\\n","stream":"stderr"}'),
        ('"gpu-7","', '"'),
    ],
)
def test_batch_line_as_a_container_or_an_export_wrote_it(before: str, after: str) -> None:
    line = f"{before}[2026-04-24 06:29:19 TP1] Decode batch, #running-req: 3, #queue-req: 7{after}"
    (event,) = batch.parse(read_record(line))
    assert event.values == {"#running-req": 3, "#queue-req": 7}
    assert (event.record.time, event.record.rank) == ("2026-04-24 06:29:19", "TP1")
    assert event.record.message.startswith("Decode batch")


@pytest.mark.parametrize(
    "text",
    [
        "[2026-04-24 06:29:19] Extend batch, #new-seq: 1",
        "[2026-04-24 06:29:19] the Decode batch, #running-req: 1",
        "[2026-04-24 06:29:19] Decode batch size 4",
        "Decode batching",
    ],
)
def test_batch_near_miss(text: str) -> None:
    assert list(batch.parse(read_record(text))) == []


@pytest.mark.parametrize("value", ["nan", "inf", "-inf", "1e999", "infinity", "", "x", "0x10"])
def test_batch_figure_that_is_no_number_is_left_out(value: str) -> None:
    (event,) = batch.parse(read_record(f"[2026-04-24 06:29:19] Decode batch, #running-req: {value}, #queue-req: 2"))
    assert event.values == {"#queue-req": 2}

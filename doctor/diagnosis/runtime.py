"""Facts about a serving server from its batch lines: queueing, KV pressure, graphs, acceptance, throughput."""

from __future__ import annotations

from collections.abc import Sequence

from doctor.logs.events.types import BatchStats
from doctor.logs.records import Record

Found = dict[str, tuple[float, Record]]


def find_runtime_facts(stats: Sequence[BatchStats]) -> Found:
    """Summarise decode lines: shares of lines in each condition, with the last line that shows it."""
    decodes = [event for event in stats if event.phase == "Decode"]
    if not decodes:
        return {}
    found: Found = {"run.decode_lines": (len(decodes), decodes[-1].record)}
    _add_share(found, "run.kv_bound_share", decodes, [_is_kv_bound(event) for event in decodes])
    _add_share(found, "run.capped_share", decodes, [_is_capped(event) for event in decodes])
    _add_share(found, "run.no_graph_share", decodes, [event.graph is False for event in decodes])
    _add_peak(found, "run.peak_running", decodes, "#running-req")
    _add_peak(found, "run.peak_queue", decodes, "#queue-req")
    _add_mean(found, "run.accept_len", decodes, "accept len")
    _add_collapse(found, decodes)
    return found


def _usage(event: BatchStats) -> float:
    return max(event.values.get("token usage", 0.0), event.values.get("full token usage", 0.0))


def _is_kv_bound(event: BatchStats) -> bool:
    return _usage(event) >= 0.95 and event.values.get("#queue-req", 0) > 0


def _is_capped(event: BatchStats) -> bool:
    return _usage(event) < 0.5 and event.values.get("#queue-req", 0) > event.values.get("#running-req", 0)


def _add_share(found: Found, name: str, events: Sequence[BatchStats], marks: Sequence[bool]) -> None:
    if any(marks):
        last = max(index for index, mark in enumerate(marks) if mark)
        found[name] = (sum(marks) / len(marks), events[last].record)


def _add_peak(found: Found, name: str, events: Sequence[BatchStats], key: str) -> None:
    peak = max(events, key=lambda event: event.values.get(key, 0))
    found[name] = (peak.values.get(key, 0), peak.record)


def _add_mean(found: Found, name: str, events: Sequence[BatchStats], key: str) -> None:
    having = [event for event in events if key in event.values]
    if having:
        found[name] = (sum(event.values[key] for event in having) / len(having), having[-1].record)


def _add_collapse(found: Found, events: Sequence[BatchStats]) -> None:
    """Compare the last quarter's throughput per running request with the first half's, without the first line."""
    rates = [
        (event.values["gen throughput (token/s)"] / event.values["#running-req"], event.record)
        for event in events[1:]
        if event.values.get("#running-req", 0) > 0 and "gen throughput (token/s)" in event.values
    ]
    if len(rates) < 40:
        return
    early = sorted(rate for rate, _ in rates[: len(rates) // 2])[len(rates) // 4]
    late = sorted(rate for rate, _ in rates[-len(rates) // 4 :])[len(rates) // 8]
    if early > 0:
        found["run.throughput_ratio"] = (late / early, rates[-1][1])

"""One snapshot of everything that is shown: the status line, /metrics, systemd's STATUS."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from doctor.memory.units import GIB
from doctor.watch import states


class Status(NamedTuple):
    """The server now: seconds, bytes, and the last diagnosis as "RULE name" ("" before the first)."""

    state: str = states.STARTING
    phase: str = states.ARGS
    elapsed: float = 0.0
    ranks: int = 0
    processes: int = 0
    rss: int = 0
    available: int = 0
    reserve: int = 0
    gpu_used: int = 0
    gpu_total: int = 0
    throughput: float = 0.0
    running: int = 0
    queued: int = 0
    seconds_to_ready: float | None = None
    restarts: Mapping[str, int] = {}
    diagnosis: str = ""
    ticked: float = 0.0
    forecast: str = ""


def describe(status: Status) -> str:
    """Write the status line."""
    where = f"{status.state} ({status.phase})" if status.state == states.STARTING else status.state
    parts = [where, _duration(status.elapsed), f"{status.ranks} ranks" if status.ranks != 1 else "1 rank"]
    if status.gpu_total:
        parts.append(f"GPU {status.gpu_used / GIB:.1f}/{status.gpu_total / GIB:.0f} GiB")
    parts.append(f"host {status.rss / GIB:.1f} GiB, {status.available / GIB:.1f} left")
    if status.state in states.UP:
        parts.append(f"{status.throughput:.0f} tok/s, {status.running} running, {status.queued} queued")
    if status.forecast:
        parts.append(status.forecast)
    return " | ".join(parts)


def _duration(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def render_metrics(status: Status) -> str:
    """Write Prometheus text (exposition format 0.0.4)."""
    lines = ["# TYPE sglang_doctor_state gauge"]
    lines += [f'sglang_doctor_state{{state="{name}"}} {int(name == status.state)}' for name in states.STATES]
    lines += ["# TYPE sglang_doctor_phase gauge"]
    lines += [f'sglang_doctor_phase{{phase="{name}"}} {int(name == status.phase)}' for name in states.PHASES]
    lines += ["# TYPE sglang_doctor_restarts_total counter"]
    lines += [f'sglang_doctor_restarts_total{{cause="{_label(name)}"}} {n}' for name, n in status.restarts.items()]
    if status.diagnosis:
        lines += ["# TYPE sglang_doctor_last_diagnosis gauge"]
        lines += [f'sglang_doctor_last_diagnosis{{rule="{_label(status.diagnosis)}"}} 1']
    gauges = {
        "seconds_to_ready": status.seconds_to_ready,
        "uptime_seconds": status.elapsed,
        "ranks": status.ranks,
        "host_rss_bytes": status.rss,
        "host_available_bytes": status.available,
        "host_reserve_bytes": status.reserve,
        "gpu_used_bytes": status.gpu_used if status.gpu_total else None,
        "gpu_total_bytes": status.gpu_total or None,
        "running_requests": status.running,
        "queued_requests": status.queued,
        "tokens_per_second": status.throughput,
    }
    for name, value in gauges.items():
        if value is not None:
            lines += [f"# TYPE sglang_doctor_{name} gauge", f"sglang_doctor_{name} {value!r}"]
    return "\n".join(lines) + "\n"


def _label(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", " ")[:200]

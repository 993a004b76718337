"""Derive the facts that rules reason about from the events: plain names, numbers and the record each comes from."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import pairwise, takewhile
from typing import Any, NamedTuple

from doctor.diagnosis.observe import Observations, following_phase
from doctor.diagnosis.runtime import find_runtime_facts
from doctor.errors import DoctorError
from doctor.logs.events.types import (
    BatchStats,
    CodecProbe,
    Event,
    ExceptionEvent,
    HttpStatus,
    KernelOom,
    MemoryMark,
    ModuleSkipped,
    OffloadStep,
    PhaseMark,
    ProcessExit,
    Said,
    ServerArgs,
    UsageError,
    Xid,
)
from doctor.logs.records import Record


class Fact(NamedTuple):
    """A value and the record that shows it (None when it was given on the command line)."""

    value: Any
    record: Record | None = None


class Facts(Mapping[str, Any]):
    """Facts by dotted name; reading gives the value, `source` the record."""

    def __init__(self, facts: Mapping[str, Fact]) -> None:
        self._facts = dict(facts)

    def __getitem__(self, name: str) -> Any:
        return self._facts[name].value

    def __iter__(self) -> Iterator[str]:
        return iter(self._facts)

    def __len__(self) -> int:
        return len(self._facts)

    def source(self, name: str) -> Record | None:
        """Give the record a fact was read from."""
        fact = self._facts.get(name)
        return fact.record if fact else None

    def with_values(self, values: Mapping[str, Any]) -> Facts:
        """Add captures or arguments that have no record of their own."""
        return Facts({**self._facts, **{name: Fact(value) for name, value in values.items()}})


def build_facts(observations: Observations) -> Facts:
    """Collect the facts of the last start in the input."""
    facts: dict[str, Fact] = {}
    seen: set[tuple[str, str]] = set()
    events = observations.events
    for event in events:
        if isinstance(event, Said):
            _add_said(facts, event)
        elif isinstance(event, MemoryMark):
            _add_memory(facts, event, seen)
        elif isinstance(event, ServerArgs):
            _add_arguments(facts, event)
        elif isinstance(event, PhaseMark):
            _add_phase(facts, event)
        elif isinstance(event, UsageError):
            facts["usage.raw"] = Fact(event.message, event.record)
            facts["usage.options"] = Fact(event.options, event.record)
        elif isinstance(event, CodecProbe):
            known = facts["codec.missing"].value if "codec.missing" in facts else []
            facts["codec.missing"] = Fact(list(dict.fromkeys([*known, *event.missing])), event.record)
            facts.setdefault("torch.version", Fact(event.torch, event.record))
    _add_offload(facts, [event for event in events if isinstance(event, OffloadStep)])
    _add_deaths(facts, events)
    _add_kernel_kill(facts, [event for event in events if isinstance(event, KernelOom)])
    _add_http(facts, [event for event in events if isinstance(event, HttpStatus)])
    _add_counts(facts, observations)
    for name, value in find_runtime_facts([event for event in events if isinstance(event, BatchStats)]).items():
        facts[name] = Fact(*value)
    _add_skipped(facts, [event for event in events if isinstance(event, ModuleSkipped)])
    _add_derived(facts)
    return Facts(facts)


def _add_said(facts: dict[str, Fact], event: Said) -> None:
    facts[event.name] = Fact(event.value, event.record)


def _add_arguments(facts: dict[str, Fact], event: ServerArgs) -> None:
    for name, value in event.values.items():
        facts[f"args.{name}"] = Fact(value, event.record)


def _add_memory(facts: dict[str, Fact], event: MemoryMark, seen: set[tuple[str, str]]) -> None:
    """Keep the target model's figures: a draft model repeats the lines later; over ranks the lowest counts."""
    name = f"mem.{event.what}"
    if event.what in _FIRST_ONLY:
        if (event.what, event.record.rank) in seen:
            return
        seen.add((event.what, event.record.rank))
    lowest = event.what in ("before_load", "after_load", "after_pool", "capture")
    if name in facts and lowest and facts[name].value <= event.value:
        return
    facts[name] = Fact(event.value, event.record)


_FIRST_ONLY = ("before_load", "after_load", "weights")


def _add_phase(facts: dict[str, Fact], event: PhaseMark) -> None:
    mark = "ready" if event.phase == "serving" else f"{event.phase.replace('-', '_')}_{event.edge}"
    facts[f"seen.{mark}"] = Fact(True, event.record)  # noqa: FBT003 - a fact's value
    facts["phase.last"] = Fact(following_phase(event), event.record)


def _add_offload(facts: dict[str, Fact], steps: list[OffloadStep]) -> None:
    numbered = [step for step in steps if step.layer >= 0]
    if not steps:
        return
    last = steps[-1].record
    moved = [step for step in numbered if step.params] or numbered
    sizes = [step.allocated for step in steps]
    growth = [after - before for before, after in pairwise(sizes) if after >= before]
    facts["offload.steps"] = Fact(len(steps), last)
    facts["offload.layers_seen"] = Fact(len(moved), last)
    facts["offload.allocated"] = Fact(sizes[-1], last)
    facts["offload.allocated_gib"] = Fact(sizes[-1] / 2**30, last)
    facts["offload.growth_bytes"] = Fact(growth, last)
    if growth:
        facts["offload.growth_mib"] = Fact(sorted(growth)[len(growth) // 2] / 2**20, last)
    if numbered:
        facts["offload.first_index"] = Fact(numbered[0].layer, numbered[0].record)
        facts["offload.last_index"] = Fact(numbered[-1].layer, numbered[-1].record)
        facts["offload.params"] = Fact(list(moved[-1].params), last)
        facts["offload.indices"] = Fact([step.layer for step in numbered], last)
        _add_offload_pace(facts, numbered)


def _add_offload_pace(facts: dict[str, Fact], steps: list[OffloadStep]) -> None:
    first, last = seconds_of(steps[0].record.time), seconds_of(steps[-1].record.time)
    if first is not None and last is not None and len(steps) > 1 and last >= first:
        facts["offload.seconds_per_layer"] = Fact((last - first) / (len(steps) - 1), steps[-1].record)


def _add_deaths(facts: dict[str, Fact], events: tuple[Event, ...]) -> None:
    for event in events:
        if isinstance(event, ProcessExit):
            facts.setdefault("exit.code", Fact(event.code, event.record))
            facts.setdefault("exit.name", Fact(event.name, event.record))
            if event.pid is not None:
                facts.setdefault("exit.pid", Fact(event.pid, event.record))
        elif isinstance(event, Xid):
            facts["kernel.xid"] = Fact(event.code, event.record)
            facts["kernel.xid_device"] = Fact(event.device, event.record)
        elif isinstance(event, ExceptionEvent) and event.is_cut:
            facts["traceback.cut"] = Fact(True, event.record)  # noqa: FBT003 - a fact's value
            facts["traceback.fatal"] = Fact("hit an exception" in event.record.message, event.record)
            facts["traceback.last_function"] = Fact(
                event.chain[-1].frames[-1].function if event.chain[-1].frames else None, event.record
            )


def _add_kernel_kill(facts: dict[str, Fact], kills: list[KernelOom]) -> None:
    """Join the kernel's kills with the server: by pid, else by the task's name (`sglang::schedul`, cut at 15 bytes).

    Times are not compared: the kernel log may be in another time zone than the container's log.
    """
    pids = {facts[name].value for name in ("exit.pid", "main.pid") if name in facts}
    ours = [kill for kill in kills if kill.pid in pids or kill.task.startswith("sglang")]
    if not ours and not pids:
        ours = [kill for kill in kills if kill.task.startswith(("python", "ray::", "pt_"))]
    if ours:
        kill = ours[-1]
        facts["kernel.oom_task"] = Fact(kill.task, kill.record)
        facts["kernel.oom_pid"] = Fact(kill.pid, kill.record)
        facts["kernel.oom_constraint"] = Fact(kill.constraint, kill.record)
        facts["kernel.oom_gib"] = Fact((kill.anon_kb + kill.shmem_kb) / 2**20, kill.record)
        facts["kernel.oom_time"] = Fact(kill.time, kill.record)


def _add_http(facts: dict[str, Fact], statuses: list[HttpStatus]) -> None:
    for event in statuses:
        if event.path in ("/health", "/health_generate") and event.status == 503:
            facts.setdefault("http.health_503_first", Fact(event.record.time, event.record))
            facts["http.health_503"] = Fact(facts.get("http.health_503", Fact(0)).value + 1, event.record)
        elif event.status >= 500:
            facts["http.errors"] = Fact(facts.get("http.errors", Fact(0)).value + 1, event.record)


def _add_skipped(facts: dict[str, Fact], skipped: list[ModuleSkipped]) -> None:
    """Find why the module of an unsupported architecture was skipped: glm4v_moe for Glm4vMoeForCausalLM, say."""
    wanted = facts.get("model.unsupported")
    name = wanted.value.lower() if wanted else ""
    matching = [event for event in skipped if name.startswith(event.module.rpartition(".")[2].replace("_", ""))]
    if name and matching:
        event = max(matching, key=lambda event: len(event.module))
        facts["model.import_error"] = Fact(event.reason, event.record)
        facts["model.import_module"] = Fact(event.module, event.record)


def _add_counts(facts: dict[str, Fact], observations: Observations) -> None:
    # from line 4,096 on, `kinds.Router` counts plain access lines as batch lines
    facts["log.batch_lines"] = Fact(observations.stat_count)
    facts["log.ok_requests"] = Fact(observations.access_count)
    facts["log.records"] = Fact(sum(observations.records))
    last = observations.last
    if last is not None:
        facts["log.last_line"] = Fact(last.lines[-1][1], last)
        facts["log.last_kind"] = Fact(last.kind, last)
        facts["log.last_offload"] = Fact("[offloader] offload" in last.message, last)
    times = [seconds_of(event.record.time) for event in observations.events if event.record.time]
    newest = seconds_of(observations.newest)
    first = next((time for time in times if time is not None), None)
    if first is not None and newest is not None and newest >= first:
        facts["log.seconds"] = Fact(newest - first)
    facts["log.newest"] = Fact(observations.newest)


def _add_derived(facts: dict[str, Fact]) -> None:
    def value(name: str) -> Any:
        fact = facts.get(name)
        return fact.value if fact else None

    visible = value("env.CUDA_VISIBLE_DEVICES")
    if isinstance(visible, str):
        # CUDA hides what follows a negative index
        shown = list(takewhile(lambda part: part.strip() and not part.strip().startswith("-"), visible.split(",")))
        facts["gpu.visible"] = Fact(len(shown), facts["env.CUDA_VISIBLE_DEVICES"].record)
    needed = count_needed_gpus(value)
    if needed is not None:
        facts["gpu.needed"] = Fact(needed, facts["args.tp_size"].record)
    used, available = value("mem.weights"), value("mem.before_load")
    if used is not None and available is not None:
        facts["mem.left_after_weights"] = Fact(available - used, facts["mem.weights"].record)
    card = value("gpu.total_gib") or known_card_gib(value("gpu.name"))
    if card:
        facts["gpu.card_gib"] = Fact(card)
    chunk = value("args.chunked_prefill_size")
    least = _LEAST_CARD_GIB.get(chunk) if isinstance(chunk, int) else None
    if least:
        facts["gpu.card_least_gib"] = Fact(least, facts["args.chunked_prefill_size"].record)
    http = value("http.health_503_first")
    started = facts.get("seen.warmup_http")
    if http and started and started.record and (begin := seconds_of(started.record.time)) is not None:
        facts["http.health_503_after"] = Fact(
            (seconds_of(http) or begin) - begin, facts["http.health_503_first"].record
        )


def count_needed_gpus(value: Any) -> int | None:
    """GPUs that one node must show: tp x pp (x dp without DP attention) / nnodes, above base_gpu_id."""
    tp = value("args.tp_size")
    if not isinstance(tp, int):
        return None
    dp, pp, nodes = value("args.dp_size") or 1, value("args.pp_size") or 1, value("args.nnodes") or 1
    replicas = 1 if value("args.enable_dp_attention") else dp
    sizes = (pp, nodes, replicas, value("args.gpu_id_step") or 1, value("args.base_gpu_id") or 0)
    if not all(isinstance(size, int) for size in sizes):
        return None
    count = max(1, tp * pp * replicas // max(nodes, 1))
    return int(sizes[4] + (count - 1) * sizes[3] + 1)


_LEAST_CARD_GIB = {16384: 160.0, 8192: 60.0, 4096: 20.0}
"""Least memory of a card for which SGLang chooses this chunked_prefill_size by itself (`arg_groups/memory_hook.py`,
0.5.23; `server_args.py`, 0.5.6 to 0.5.18)."""


def known_card_gib(name: object) -> float | None:
    """Memory that CUDA shows of a card, by its name; None when the name is not known."""
    if not isinstance(name, str):
        return None
    from doctor.memory.gpus import find_gpu

    try:
        return find_gpu(name).usable / 2**30
    except DoctorError:
        return None


def seconds_of(time: str | None) -> float | None:
    """Read `2026-04-24 06:29:19[.123]` as seconds (only differences mean something); None for other forms."""
    if not time or len(time) < 19 or time[4] != "-":
        return None
    import datetime as dt

    try:
        moment = dt.datetime.fromisoformat(time[:19].replace("T", " "))
    except ValueError:
        return None
    fraction = float("0." + time[20:26]) if len(time) > 20 and time[20:26].isdigit() else 0.0
    return moment.timestamp() + fraction

"""Will it fit, and with which numbers: the answer to `doctor plan`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from doctor.memory import config as cfg
from doctor.memory.budget import (
    Budget,
    Setting,
    find_tightest,
    find_window,
    get_lowest_fraction,
    list_gpu_rows,
)
from doctor.memory.fraction import Defaults, Subject, choose_defaults
from doctor.memory.gpus import Machine, check_gpu, describe_generation
from doctor.memory.host import (
    find_host_faults,
    get_host_limit,
    list_host_rows,
    sum_peak,
)
from doctor.memory.kv import count_context
from doctor.memory.launch import Launch, build_on_ranks, describe_cpu_machine, name_guess, prepare_launch
from doctor.memory.offload import Offload, find_offload_conflicts, find_offload_notes, find_prefetch_conflict
from doctor.memory.parallel import Ranks, count_gpus, count_local, find_conflicts
from doctor.memory.shapes import Change, Row
from doctor.memory.units import GIB, format_count, format_size
from doctor.memory.versions import parse_version

LENGTHS = (4096, 8192, 32768, 131072, 1 << 20)


class Plan(NamedTuple):
    """The memory of one launch. Sizes are bytes on the rank that has least room.

    `verdict` is "fits", "tight" (starts, but `reasons` say what fails later), "does not fit" or "unknown"
    (no GPU given). `window` holds the fractions that work, low above high when none does. `tokens` is
    SGLang's max_total_num_tokens per attention replica; `capacity` pairs a request length with how many
    such requests the whole launch holds at once. `changes` are the nearest that make it fit. `guess` names
    what is unknown of the model (architecture, quantization) while no weight file corrects what was assumed of it.
    """

    model: str
    version: str
    verdict: str
    reasons: tuple[str, ...]
    gpu: str
    gpu_support: str
    gpus_needed: int
    gpu_total: int
    gpu_rows: tuple[Row, ...]
    host_limit: int | None
    host_peak: int
    host_rows: tuple[Row, ...]
    weights: tuple[Row, ...]
    stored: tuple[Row, ...]
    offload: Offload
    fraction: float
    fraction_given: bool
    window: tuple[float, float]
    chunk: int
    decode_sizes: tuple[int, ...]
    prefill_sizes: tuple[int, ...]
    context: int
    tokens: int
    window_tokens: int
    bytes_per_token: float
    requests: int
    capacity: tuple[tuple[int, int], ...]
    changes: tuple[Change, ...]
    notes: tuple[str, ...]
    guess: str


def plan_model(model_dir_or_config: Path, arguments: Mapping[str, object], machine: Machine, version: str) -> Plan:
    """Plan a launch of the model in a folder, a config.json or a .gguf file; no weight is read.

    `arguments` are server arguments by their names in server_args (underscores); environment variables that
    matter (PYTORCH_ALLOC_CONF) stand among them under their own names. Raises DoctorError when nothing at the
    path describes a model.
    """
    from doctor.memory.advice import find_changes

    launch = prepare_launch(model_dir_or_config, arguments, machine, version)
    plan = evaluate(launch, arguments)
    return plan._replace(changes=find_changes(launch, plan)) if plan.verdict != "fits" else plan


def evaluate(launch: Launch, arguments: Mapping[str, object]) -> Plan:
    """Return the plan of a launch with these arguments, without looking for changes."""
    setting = make_setting(launch, arguments)
    budget = find_tightest(setting)
    host_rows = list_rows_on_host(launch, setting, budget)
    faults = find_faults(setting, budget, host_rows)
    warnings = [] if faults else find_warnings(setting, budget)
    defaults, machine = setting.defaults, setting.machine
    copies = setting.ranks.attention_dp * setting.ranks.replicas
    return Plan(
        model=setting.model.architecture,
        version=launch.version,
        verdict=choose_verdict(machine, faults, warnings),
        reasons=tuple(faults or warnings),
        gpu=machine.gpu.name if machine.gpu else "",
        gpu_support=describe_generation(machine.gpu) if machine.gpu and any(machine.gpu.capability) else "",
        gpus_needed=count_gpus(setting.ranks),
        gpu_total=machine.gpu.usable if machine.gpu else 0,
        gpu_rows=list_gpu_rows(budget, machine),
        host_limit=get_host_limit(machine),
        host_peak=sum_peak(host_rows),
        host_rows=host_rows,
        weights=list_weight_rows(budget),
        stored=list_stored_rows(launch),
        offload=budget.offload,
        fraction=defaults.fraction,
        fraction_given=defaults.is_given,
        window=find_window(setting, budget),
        chunk=defaults.chunk,
        decode_sizes=defaults.graphs.decode,
        prefill_sizes=defaults.graphs.prefill,
        context=setting.context,
        tokens=budget.pool.tokens,
        window_tokens=budget.pool.window_tokens,
        bytes_per_token=budget.cell.full + budget.cell.window,
        requests=budget.pool.requests * copies,
        capacity=list_capacity(budget, setting.context, copies),
        changes=(),
        notes=(*launch.notes, *find_notes(setting)),
        guess=name_guess(launch),
    )


def make_setting(launch: Launch, arguments: Mapping[str, object]) -> Setting:
    """Resolve ranks, model, defaults and context length of one launch."""
    model, ranks, quant = build_on_ranks(launch, arguments)
    version = parse_version(launch.version)
    is_cpu = cfg.get_text(arguments, "device") == "cpu"
    machine = describe_cpu_machine(launch.machine) if is_cpu else launch.machine
    config = launch.files.config
    memory = machine.gpu.memory_mib if machine.gpu else None
    defaults = choose_defaults(Subject(memory, arguments, ranks, model, config, version))
    if is_cpu:
        defaults = drop_graphs(defaults)
    context = cfg.get_int(arguments, "context_length") or cfg.get_context_length(config)
    return Setting(config, model, ranks, quant, arguments, machine, defaults, context, version)


def drop_graphs(defaults: Defaults) -> Defaults:
    """Return the defaults of a CPU server, which captures no CUDA graphs."""
    return defaults._replace(graphs=defaults.graphs._replace(decode=(), prefill=()))


def list_rows_on_host(launch: Launch, setting: Setting, budget: Budget) -> tuple[Row, ...]:
    """Return the host table; a CPU server has weights and KV cache there as well."""
    local = count_local(setting.ranks)
    pool = budget.pool.cache_size + budget.pool.state_size
    size = launch.files.headers.file_bytes
    rows = list_host_rows(budget.offload, local, pool, size, setting.arguments)
    if cfg.get_text(setting.arguments, "device") != "cpu":
        return rows
    own = (Row("weights", budget.weights * local, "on the CPU"), Row("KV cache", pool * local, "on the CPU"))
    return (*own, *rows)


def choose_verdict(machine: Machine, faults: list[str], warnings: list[str]) -> str:
    """Return the one-word answer."""
    if machine.gpu is None:
        return "unknown" if not faults else "does not fit"
    return "does not fit" if faults else "tight" if warnings else "fits"


def find_faults(setting: Setting, budget: Budget, host_rows: tuple[Row, ...]) -> list[str]:
    """Return why this launch cannot work at all."""
    machine, ranks = setting.machine, setting.ranks
    conflicts = find_conflicts(setting.config, ranks)
    conflicts += find_offload_conflicts(setting.model, setting.arguments, setting.version)
    conflicts += find_prefetch_conflict(budget.offload, setting.arguments)
    host = find_host_faults(host_rows, machine, count_local(ranks))
    if machine.gpu is None:
        return [*conflicts, *host]
    needed, present = count_local(ranks), machine.gpus
    missing = [f"{needed} GPUs are needed on this host, {present} are there"] if needed > present else []
    return [*conflicts, *missing, *find_gpu_faults(setting, budget), *host]


def find_gpu_faults(setting: Setting, budget: Budget) -> list[str]:
    """Return why the GPU cannot hold weights and a pool, in the terms of SGLang's own refusal."""
    if budget.after <= 0:
        room = format_size(max(0, budget.before))
        return [f"{format_size(budget.weights)} of weights, {room} of GPU memory: out of memory while loading"]
    if budget.pool.tokens > 0:
        return []
    lowest = get_lowest_fraction(budget)
    low, high = find_window(setting, budget)
    advice = f"raise it to {low:.3f} or more" if low <= high else f"it would have to be above {lowest:.3f}"
    fraction = f"mem_fraction_static {setting.defaults.fraction:.3f}"
    weights = format_size(budget.weights)
    return [f"{fraction} leaves nothing for the KV cache after {weights} of weights: {advice}"]


def find_warnings(setting: Setting, budget: Budget) -> list[str]:
    """Return what will fail later although the server starts."""
    warnings: list[str] = []
    if setting.machine.gpu is None:
        return warnings
    if budget.left < 0:
        warnings.append(
            f"graphs, activations and tables need {format_size(budget.needs)}, but only "
            f"{format_size(budget.needs + budget.left)} stay free: out of memory at capture or in a long prefill"
        )
    if count_context(budget.pool, budget.cell, setting.context) < 1:
        warnings.append(
            f"the pool holds {format_count(budget.pool.tokens)} tokens, less than one request of the full "
            f"context length {format_count(setting.context)}: longer requests are refused"
        )
    return warnings


def list_weight_rows(budget: Budget) -> tuple[Row, ...]:
    """Return one rank's weights by part, largest first."""
    parts = sorted(budget.parts.items(), key=lambda item: -item[1])
    return tuple(Row(part, size, "") for part, size in parts if size)


def list_stored_rows(launch: Launch) -> tuple[Row, ...]:
    """Return the checkpoint's bytes by dtype, as the files' headers say; empty when they were not read."""
    if launch.counted is None:
        return ()
    dtypes = sorted(launch.counted.dtypes.items(), key=lambda item: -item[1])
    return tuple(Row(dtype, size, "in the files") for dtype, size in dtypes)


def list_capacity(budget: Budget, context: int, copies: int) -> tuple[tuple[int, int], ...]:
    """Return request lengths up to the context length with how many of each fit at once."""
    lengths = [length for length in LENGTHS if length < context]
    return tuple((length, count_context(budget.pool, budget.cell, length) * copies) for length in (*lengths, context))


def find_notes(setting: Setting) -> list[str]:
    """Return what is worth knowing but breaks nothing."""
    notes = find_offload_notes(setting.arguments)
    if setting.machine.gpu is not None and setting.machine.gpu.capability != (0, 0):
        notes += check_gpu(setting.machine.gpu, setting.quant.method)
    notes += describe_uncounted(setting.arguments, setting.ranks)
    return notes


def describe_uncounted(arguments: Mapping[str, object], ranks: Ranks) -> list[str]:
    """Return what this plan does not count."""
    notes = []
    draft = cfg.get_text(arguments, "speculative_draft_model_path", "speculative_draft_model")
    if draft and draft != cfg.get_text(arguments, "model_path"):
        what = "the KV cache of the draft model" if Path(draft).is_dir() else f"the draft model {draft[:80]}"
        notes.append(f"{what} is not counted")
    if arguments.get("lora_paths") or cfg.get_flag(arguments, "enable_lora"):
        notes.append("LoRA adapters are not counted")
    if cfg.get_flag(arguments, "enable_symm_mem"):
        notes.append(f"--enable-symm-mem takes {format_size(4 * GIB)} more unless told otherwise")
    if ranks.nodes > 1:
        notes.append(f"host memory is that of one of {ranks.nodes} nodes")
    return notes


def to_data(plan: Plan) -> dict[str, object]:
    """Return the plan as plain dictionaries and lists, for JSON."""
    return {name: simplify(value) for name, value in plan._asdict().items()}


def simplify(value: object) -> object:
    """Return named tuples as dictionaries and other tuples as lists, all the way down."""
    if isinstance(value, tuple):
        fields = getattr(value, "_asdict", None)
        if fields is not None:
            return {name: simplify(inner) for name, inner in fields().items()}
        return [simplify(inner) for inner in value]
    return value

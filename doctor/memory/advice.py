"""The nearest changes that make a launch fit: each is tried by planning the changed launch."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from doctor.memory import config as cfg
from doctor.memory.launch import Launch
from doctor.memory.plan import Plan, evaluate
from doctor.memory.shapes import Change, Edit
from doctor.memory.units import GIB, format_count, format_size

MOST_CHANGES = 4
# Of a model that lives on the host nearly whole, every forward waits for PCIe; that is no advice.
MOST_OFFLOADED = 0.9
SMALLEST_CHUNK = 512
SMALLEST_CONTEXT = 2048
GROUP_SIZES = (2, 3, 4, 6, 8, 12, 16, 24)
TENSOR_SIZES = (2, 4, 8, 16)


class Case(NamedTuple):
    """A launch and the plan that says it does not fit."""

    launch: Launch
    plan: Plan


class Trial(NamedTuple):
    """A change to try: the arguments it sets (None removes one), its title, what it costs.

    `gpus` and `is_empty` suppose another machine: so many GPUs, none of them used by others; `bits` supposes
    a checkpoint of the same model with weights of so many bits.
    """

    settings: Mapping[str, object]
    title: str
    why: str
    gpus: int = 0
    is_empty: bool = False
    bits: int = 0


def find_changes(launch: Launch, plan: Plan) -> tuple[Change, ...]:
    """Return the first fitting change of each kind, cheapest kinds first; empty when none helps.

    When undoing a setting or freeing the GPU is enough, nothing else is offered. Changes after which the
    launch starts but is still tight are offered only when none makes it fit.
    """
    case = Case(launch, plan)
    simple = [hit for make in UNDOING if (hit := try_first(case, make(case))) and hit[0] == "fits"]
    if simple:
        return tuple(change for _, change in simple)
    found = [hit for make in COSTLY if (hit := try_first(case, make(case))) is not None]
    best = [change for verdict, change in found if verdict == "fits"]
    return tuple((best or [change for _, change in found])[:MOST_CHANGES])


def try_first(case: Case, trials: Iterator[Trial]) -> tuple[str, Change] | None:
    """Return the first trial that fits, else the first one better than the plan, else None."""
    fallback: tuple[str, Change] | None = None
    for trial in trials:
        verdict, tried = try_one(case.launch, trial)
        change = Change(verdict, tried.title, list_edits(tried), tried.why)
        if verdict == "fits":
            return verdict, change
        if verdict == "tight" and case.plan.verdict == "does not fit" and fallback is None:
            fallback = (verdict, change)
    return fallback


def try_one(launch: Launch, trial: Trial) -> tuple[str, Trial]:
    """Return the verdict on a trial; when only its fraction is wrong, on the trial with the right one."""
    supposed = suppose(launch, trial)
    result = evaluate(supposed, apply_trial(launch.arguments, trial))
    low, high = result.window
    if result.verdict == "fits" or low > high or "mem_fraction_static" in trial.settings:
        return result.verdict, trial
    middle = round((low + high) / 2, 3)
    second = trial._replace(settings={**trial.settings, "mem_fraction_static": middle})
    verdict = evaluate(supposed, apply_trial(launch.arguments, second)).verdict
    return (verdict, second) if verdict == "fits" else (result.verdict, trial)


def suppose(launch: Launch, trial: Trial) -> Launch:
    """Return the launch on the machine and with the checkpoint that the trial supposes."""
    machine = launch.machine._replace(gpus=trial.gpus or launch.machine.gpus)
    files = launch.files
    if trial.bits:
        quantized = {"quant_method": "awq", "bits": trial.bits, "group_size": 128}
        whole = {**files.config.whole, "quantization_config": quantized}
        files = files._replace(config=cfg.make_config(whole))
    return launch._replace(machine=machine._replace(gpu_free=None) if trial.is_empty else machine, files=files)


def apply_trial(arguments: Mapping[str, object], trial: Trial) -> dict[str, object]:
    """Return the arguments with the trial's settings; a None takes the argument away."""
    merged = {**arguments, **trial.settings}
    return {name: value for name, value in merged.items() if value is not None}


def list_edits(trial: Trial) -> tuple[Edit, ...]:
    """Return the trial as edits of command-line flags."""
    return tuple(
        Edit("--" + name.replace("_", "-"), None if value is None else str(value))
        for name, value in trial.settings.items()
    )


def try_empty_gpu(case: Case) -> Iterator[Trial]:
    """Try the same launch on GPUs that nothing else uses."""
    occupied = next((row.size for row in case.plan.gpu_rows if row.name == "other processes"), 0)
    if occupied:
        why = f"other processes hold {format_size(occupied)} of it; the launch itself is right"
        yield Trial({}, "free the GPU, or choose another one (--base-gpu-id)", why, is_empty=True)


def try_without_offload(case: Case) -> Iterator[Trial]:
    """Try dropping an offload that crashes or that is not needed."""
    names = ("offload_group_size", "offload_num_in_group", "offload_prefetch_step", "offload_mode")
    given = {name: None for name in (*names, "cpu_offload_gb") if name in case.launch.arguments}
    if given:
        yield Trial(given, "do not offload", "the weights fit the GPU")


def try_fractions(case: Case) -> Iterator[Trial]:
    """Try SGLang's own fraction when one was given, then the middle of the feasible window."""
    low, high = case.plan.window
    if case.plan.fraction_given:
        title = "let SGLang choose the fraction (drop --mem-fraction-static)"
        yield Trial({"mem_fraction_static": None}, title, f"{case.plan.fraction:.3f} does not work")
    if low <= high:
        middle = round((low + high) / 2, 3)
        why = f"{low:.3f} to {high:.3f} work, {case.plan.fraction:.3f} does not"
        yield Trial({"mem_fraction_static": middle}, f"set --mem-fraction-static {middle:g}", why)


def try_chunks(case: Case) -> Iterator[Trial]:
    """Try smaller prefill chunks: activations shrink with them, prefill gets slower."""
    chunk = case.plan.chunk // 2
    while chunk >= SMALLEST_CHUNK:
        title = f"prefill in chunks of {chunk} tokens"
        yield Trial({"chunked_prefill_size": chunk}, title, "less activation memory, slower prefill")
        chunk //= 2


def try_contexts(case: Case) -> Iterator[Trial]:
    """Try shorter context lengths, the longest first."""
    length = 1 << max(0, case.plan.context.bit_length() - 1)
    length = length if length < case.plan.context else length // 2
    while length >= SMALLEST_CONTEXT:
        title = f"limit the context to {format_count(length)} tokens"
        yield Trial({"context_length": length}, title, "longer requests are refused")
        length //= 2


def try_cache_types(case: Case) -> Iterator[Trial]:
    """Try an fp8 KV cache."""
    if not cfg.get_text(case.launch.arguments, "kv_cache_dtype").startswith(("fp", "nv", "mx")):
        why = "half the bytes per token, less precise"
        yield Trial({"kv_cache_dtype": "fp8_e5m2"}, "keep the KV cache in fp8", why)


def get_tp(launch: Launch) -> int:
    """Return the launch's tensor parallel size."""
    return cfg.get_int(launch.arguments, "tp_size", "tensor_parallel_size") or 1


def set_tp(launch: Launch, tp: int) -> dict[str, object]:
    """Return the setting of the tensor parallel size, removing the flag's other name."""
    old = {"tensor_parallel_size": None} if "tensor_parallel_size" in launch.arguments else {}
    return {**old, "tp_size": tp}


def try_ranks(case: Case) -> Iterator[Trial]:
    """Try wider tensor parallelism on the GPUs that are there."""
    present = case.launch.machine.gpus
    for wider in TENSOR_SIZES:
        if get_tp(case.launch) < wider <= present:
            why = f"this machine has {present} GPUs"
            yield Trial(set_tp(case.launch, wider), f"use {wider} GPUs (--tp-size {wider})", why)


def try_more_gpus(case: Case) -> Iterator[Trial]:
    """Name the number of GPUs that would do when this machine has fewer."""
    present = case.launch.machine.gpus
    for wider in TENSOR_SIZES:
        if wider > max(get_tp(case.launch), present):
            why = f"this machine has {present} of the {wider} {case.plan.gpu} needed"
            title = f"use {wider} GPUs (--tp-size {wider})"
            yield Trial(set_tp(case.launch, wider), title, why, gpus=wider)


def try_quantization(case: Case) -> Iterator[Trial]:
    """Try online fp8 for an unquantized checkpoint (sm80 on, natively from sm89), then a 4-bit one."""
    launch = case.launch
    gpu = launch.machine.gpu
    quantized = bool(launch.files.quantization) or "quantization_config" in launch.files.config.whole
    if gpu is None or gpu.capability < (8, 0) or quantized or launch.arguments.get("quantization"):
        return
    why = "half the weight bytes; a checkpoint quantized beforehand loads faster and is more precise"
    yield Trial({"quantization": "fp8"}, "quantize the weights to fp8 while loading", why)
    title = "serve a 4-bit checkpoint of this model (AWQ, GPTQ)"
    yield Trial({}, title, "a quarter of the weight bytes, less precise", bits=4)


def try_offload(case: Case) -> Iterator[Trial]:
    """Try moving weights to the host, as few as fit: whole expert layers where the model allows it."""
    launch = case.launch
    if launch.choice.family.grouped_offload:
        yield from (make_group_trial(launch, *split) for split in list_splits())
    free = next((row.size for row in case.plan.gpu_rows if row.name == "free"), 0)
    most = int(MOST_OFFLOADED * sum(row.size for row in case.plan.weights)) // GIB
    start = max(1, -free // GIB)
    removed = {"offload_group_size": None} if "offload_group_size" in launch.arguments else {}
    sizes = dict.fromkeys((start, start + 2, start + 4, start * 2, start * 2 + 8))
    for gigabytes in (size for size in sizes if size <= most):
        title = f"move {gigabytes} GiB of weights per rank to the host (--cpu-offload-gb {gigabytes})"
        why = "every forward copies them back over PCIe: much slower"
        yield Trial({**removed, "cpu_offload_gb": gigabytes}, title, why)


def list_splits() -> list[tuple[int, int]]:
    """Return (group size, number in group) from few offloaded layers to all, each share once."""
    splits = {1.0: (1, 1)}
    for size in GROUP_SIZES:
        for number in range(1, size):
            splits.setdefault(number / size, (size, number))
    return [splits[share] for share in sorted(splits)]


def make_group_trial(launch: Launch, size: int, number: int) -> Trial:
    """Return the trial of one split."""
    removed: dict[str, object] = {"cpu_offload_gb": None} if "cpu_offload_gb" in launch.arguments else {}
    title = f"offload the experts of {number} in {size} layers"
    why = f"keeps {size - number} of every {size} expert layers on the GPU"
    return Trial({**removed, "offload_group_size": size, "offload_num_in_group": number}, title, why)


UNDOING: tuple[Callable[[Case], Iterator[Trial]], ...] = (try_empty_gpu, try_without_offload, try_fractions)
COSTLY: tuple[Callable[[Case], Iterator[Trial]], ...] = (
    try_chunks,
    try_ranks,
    try_cache_types,
    try_contexts,
    try_quantization,
    try_offload,
    try_more_gpus,
)

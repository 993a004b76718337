"""SGLang's own choice of chunk size, captured batch sizes and mem_fraction_static, version by version.

Read from the wheels' source: server_args.py (0.4.6.post5 to 0.5.18) and arg_groups/memory_hook.py and
cuda_graph_hook.py (0.5.19 to 0.5.23). Sizes are MiB, as there. A version between two wheels counts as the
older one. SGLANG_ENABLE_POST_CAPTURE_KV_SIZING (off by default, 0.5.17 on) is not modelled.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from doctor.memory import config as cfg
from doctor.memory.graphs import Graphs, choose_graphs
from doctor.memory.parallel import Ranks
from doctor.memory.shapes import Model

UNKNOWN_GPU_FRACTION = 0.88
UNKNOWN_GPU_FRACTION_LATEST = 0.95  # 0.5.21 on
LARGE_GPU_MIB, LARGE_GPU_RESERVE = 60 * 1024, 10 * 1024


class Subject(NamedTuple):
    """What the heuristics look at: the GPU's nvidia-smi memory in MiB (None: unknown), arguments, model."""

    gpu_mib: int | None
    arguments: Mapping[str, object]
    ranks: Ranks
    model: Model
    config: cfg.Config
    version: tuple[int, ...]


class Defaults(NamedTuple):
    """What SGLang resolves: chunked_prefill_size, the graphs, the fraction, and the MiB it reserved."""

    chunk: int
    graphs: Graphs
    fraction: float
    reserved_mib: float
    is_given: bool


def choose_defaults(subject: Subject) -> Defaults:
    """Return the resolved chunk size, graph batch sizes and mem_fraction_static."""
    chunk = choose_chunk(subject)
    graphs = choose_graphs(subject.gpu_mib, subject.arguments, subject.model, subject.version, chunk)
    reserved = choose_reserve(subject, chunk, graphs)
    given = cfg.get_float(subject.arguments, "mem_fraction_static", 0.0)
    if 0 < given <= 1:
        return Defaults(chunk, graphs, given, reserved, is_given=True)
    return Defaults(chunk, graphs, choose_fraction(subject, reserved), reserved, is_given=False)


def choose_chunk(subject: Subject) -> int:
    """Return chunked_prefill_size; 0 when --chunked-prefill-size -1 switches chunking off."""
    given = subject.arguments.get("chunked_prefill_size")
    if isinstance(given, int) and not isinstance(given, bool):
        return max(0, min(given, cfg.MAX_NUMBER))
    if subject.version < (0, 4, 10):
        return choose_first_chunk(subject)
    if subject.gpu_mib is None:
        return 4096
    limits: tuple[tuple[int, int], ...] = ((35, 2048), (160, 8192))
    if subject.version >= (0, 5, 4):
        small = 4096 if subject.version >= (0, 5, 21) else 2048
        limits = ((20, 2048), (35, small), (60, 4096), (160, 8192))
    return next((chunk for gib, chunk in limits if subject.gpu_mib < gib * 1024), 16384)


def choose_first_chunk(subject: Subject) -> int:
    """Return the chunk size of 0.4.6."""
    if subject.gpu_mib is not None and subject.gpu_mib < 25_000:
        return 2048
    disaggregated = cfg.get_text(subject.arguments, "disaggregation_mode") not in {"", "null"}
    return 16384 if disaggregated else 8192


def choose_fraction(subject: Subject, reserved: float) -> float:
    """Return mem_fraction_static from the reserve, lowered for image models."""
    if subject.version < (0, 4, 10):
        return choose_first_fraction(subject)
    if subject.gpu_mib is None:
        fraction = UNKNOWN_GPU_FRACTION_LATEST if subject.version >= (0, 5, 21) else UNKNOWN_GPU_FRACTION
    else:
        fraction = round((subject.gpu_mib - reserved) / subject.gpu_mib, 3)
    return max(0.0, fraction * get_vision_factor(subject))


def choose_first_fraction(subject: Subject) -> float:
    """Return the fixed table of 0.4.6, raised on GPUs above 96 GiB."""
    ranks = subject.ranks.tp * subject.ranks.pp
    memory = subject.gpu_mib
    if memory is None:
        return 0.88
    table = ((16, 0.79), (8, 0.81), (4, 0.85), (2, 0.87))
    fraction = next((f for least, f in table if ranks >= least), 0.88) if memory <= 81920 else 0.88
    if memory > 96 * 1024:
        fraction = min(fraction + 48 * 1024 * (1 - fraction) / memory, (memory - 18 * 1024) / memory)
    return fraction


def choose_reserve(subject: Subject, chunk: int, graphs: Graphs) -> float:
    """Return the MiB that SGLang keeps out of weights and KV cache."""
    if subject.version < (0, 4, 10):
        memory = subject.gpu_mib or 0
        return memory * (1 - choose_first_fraction(subject))
    if subject.version < (0, 5, 4):
        return choose_table_reserve(subject)
    reserve = 512 + 1.5 * count_activation_tokens(subject, chunk, graphs)
    reserve += subject.ranks.tp * subject.ranks.pp / 8 * 1024
    reserve += measure_graphs(subject, graphs)
    if subject.gpu_mib is not None and subject.gpu_mib > LARGE_GPU_MIB:
        reserve = max(reserve, LARGE_GPU_RESERVE)
    return reserve + measure_late_reserves(subject, graphs)


def choose_table_reserve(subject: Subject) -> float:
    """Return the reserve of 0.4.10 to 0.5.2: a table by GPU size."""
    memory = subject.gpu_mib or 0
    ranks = subject.ranks.tp * subject.ranks.pp
    if memory < 35 * 1024:
        reserve = (2.8 + ranks / 10) * 1024
    elif memory < 90 * 1024:
        reserve = (9.5 + ranks / 2) * 1024
    else:
        reserve = (12 + ranks / 2) * 1024 if memory < 160 * 1024 else 32 * 1024
    attention_dp = 4 * 1024 if subject.ranks.attention_dp > 1 else 0
    return reserve + attention_dp + measure_speculation(subject)


def measure_speculation(subject: Subject) -> float:
    """Return the reserve for a draft model, gone since 0.5.15 (EAGLE: 4 GiB in 0.5.10 and 0.5.12)."""
    algorithm = cfg.get_text(subject.arguments, "speculative_algorithm").upper()
    if not algorithm or subject.version >= (0, 5, 15):
        return 0.0
    if algorithm == "STANDALONE" and subject.version >= (0, 5, 2):
        return 6 * 1024
    if algorithm == "NGRAM":
        return 0.0
    return (4 if subject.version >= (0, 5, 10) else 2) * 1024


def count_activation_tokens(subject: Subject, chunk: int, graphs: Graphs) -> int:
    """Return the tokens that activations are reserved for: one prefill chunk, or a decode server's batch."""
    arguments = subject.arguments
    if cfg.get_text(arguments, "disaggregation_mode") == "decode" and subject.version >= (0, 5, 15):
        running = cfg.get_int(arguments, "max_running_requests") or graphs.decode_max or 1
        return max(running * (cfg.get_int(arguments, "speculative_num_draft_tokens") or 1), 2048)
    return max(chunk or cfg.get_int(arguments, "max_prefill_tokens") or 16384, 2048)


def measure_graphs(subject: Subject, graphs: Graphs) -> float:
    """Return the reserve for captured graphs: 2 MiB per decode batch slot, and what prefill graphs take.

    Attention DP adds 3 MiB per slot and replica, 4.5 above 300 slots.
    """
    # Before 0.5.15 the decode graphs' share stayed reserved even when they were switched off.
    reserve = 2.0 * graphs.decode_max if graphs.decode or subject.version < (0, 5, 15) else 0.0
    if subject.ranks.attention_dp > 1 and not is_prefill_server(subject):
        per_slot = 4.5 if graphs.decode_max > 300 else 3.0
        reserve += graphs.decode_max * subject.ranks.attention_dp * per_slot
    return reserve + measure_prefill_graphs(subject, graphs)


def measure_prefill_graphs(subject: Subject, graphs: Graphs) -> float:
    """Return the reserve for prefill graphs: 8 MiB per size, 1.5 GiB for MLA, 1 GiB more for DeepEP."""
    if not graphs.prefill:
        return 0.0
    if subject.version < (0, 5, 8):
        return graphs.prefill[-1] // 4
    deepep = cfg.get_text(subject.arguments, "moe_a2a_backend") == "deepep" and subject.version >= (0, 5, 17)
    latent = subject.model.latent and subject.version >= (0, 5, 10)
    return (1536 if latent else 8 * len(graphs.prefill)) + (1024 if deepep else 0)


def is_prefill_server(subject: Subject) -> bool:
    """Tell whether this is the prefill half of a disaggregated pair."""
    return cfg.get_text(subject.arguments, "disaggregation_mode") == "prefill"


def measure_late_reserves(subject: Subject, graphs: Graphs) -> float:
    """Return what is added after the floor for large GPUs: draft models and DeepEP's buffers."""
    reserve = measure_speculation(subject)
    if cfg.get_text(subject.arguments, "moe_a2a_backend") != "deepep" or subject.version < (0, 5, 15):
        return reserve
    return reserve + (2048 if graphs.decode else 0)


def get_vision_factor(subject: Subject) -> float:
    """Return the factor for models with an image tower: 0.95, less for towers above ViT-L's 24 x 1024."""
    vision = cfg.get_map(subject.config.whole, "vision_config")
    skipped = any(cfg.get_flag(subject.arguments, name) for name in ("language_only", "language_model_only"))
    if not vision or skipped:
        return 1.0
    layers = cfg.get_int(vision, "num_hidden_layers") or 24
    width = cfg.get_int(vision, "hidden_size") or 1024
    complexity = layers * width**2 / (24 * 1024**2)
    return 0.95 * max(0.8, min(1.05, 1.0 - 0.1 * (complexity - 1.0)))

"""One rank's GPU memory: what is there, what each thing takes, and which fractions would work."""

from __future__ import annotations

from collections.abc import Mapping
from math import ceil, floor
from typing import NamedTuple

from doctor.memory import config as cfg
from doctor.memory.estimate import (
    KERNEL_BYTES,
    measure_activations,
    measure_context,
    measure_graph_bytes,
)
from doctor.memory.fraction import Defaults
from doctor.memory.gpus import Machine
from doctor.memory.kv import (
    STATE_RATIO,
    Cell,
    Pool,
    choose_bits,
    measure_bookkeeping,
    measure_cell,
    size_pool,
)
from doctor.memory.offload import Offload, plan_offload
from doctor.memory.parallel import Ranks, split_stages
from doctor.memory.quant import Quant
from doctor.memory.shapes import Model, Row
from doctor.memory.units import MIB
from doctor.memory.weights import Stage, list_params, sum_parts

# SGLANG_VLM_CACHE_SIZE_MB, taken from the KV budget of image models since 0.5.18 (kv_cache_configurator.py).
VISION_CACHE_BYTES = 100 * MIB
VISION_CACHE_SINCE = (0, 5, 18)


class Setting(NamedTuple):
    """Everything a budget is computed from."""

    config: cfg.Config
    model: Model
    ranks: Ranks
    quant: Quant
    arguments: Mapping[str, object]
    machine: Machine
    defaults: Defaults
    context: int
    version: tuple[int, ...]


class Budget(NamedTuple):
    """One rank of one pipeline stage; bytes. `before` is SGLang's baseline, `after` what weights leave of it.

    `total` is what the launch can have of the GPU, `context` what is gone before anything is loaded.
    """

    stage: Stage
    parts: Mapping[str, int]
    weights: int
    offload: Offload
    cell: Cell
    pool: Pool
    total: int
    context: int
    before: int
    after: int
    tables: int
    graphs: int
    activations: int

    @property
    def needs(self) -> int:
        """What must fit outside weights and pool."""
        return self.tables + self.graphs + self.activations + self.offload.in_flight

    @property
    def left(self) -> int:
        """What remains, negative when it does not fit."""
        return self.after - self.pool.cache_size - self.pool.state_size - self.needs


def list_stages(model: Model, ranks: Ranks) -> list[Stage]:
    """Return the pipeline stages."""
    stages = split_stages(len(model.layers), ranks.pp)
    last = len(stages) - 1
    return [Stage(layers, number == 0, number == last) for number, layers in enumerate(stages)]


def find_tightest(setting: Setting) -> Budget:
    """Return the budget of the stage that holds the fewest tokens, or leaves the least."""
    budgets = [measure_budget(setting, stage) for stage in list_stages(setting.model, setting.ranks)]
    return min(budgets, key=lambda budget: (budget.pool.tokens, budget.left))


def measure_budget(setting: Setting, stage: Stage) -> Budget:
    """Return one rank's budget; without a known GPU, all that depends on it is zero or negative."""
    model, arguments = setting.model, setting.arguments
    offload = plan_offload(model, stage, arguments, setting.version)
    parts = sum_parts(list_params(model, stage))
    weights = sum(parts.values()) - offload.moved
    cell = measure_cell(model, stage, choose_bits(arguments, setting.quant))
    total = get_total(setting.machine)
    context = measure_context(setting.ranks)
    before = total - context
    after = before - KERNEL_BYTES - weights
    kept_out = int(before * (1 - setting.defaults.fraction))
    room = max(0, after - kept_out - measure_vision_cache(setting))
    pool = size_pool(room, cell, arguments, setting.ranks, setting.context)
    return Budget(
        stage,
        parts,
        weights,
        offload,
        cell,
        pool,
        total=total,
        context=context + KERNEL_BYTES,
        before=before,
        after=after,
        tables=measure_bookkeeping(pool, setting.context, cfg.get_int(arguments, "page_size") or 1),
        graphs=measure_graph_bytes(setting.defaults),
        activations=measure_activations(setting.config, model, setting.ranks, arguments, setting.defaults),
    )


def get_total(machine: Machine) -> int:
    """Return the bytes this launch can have of each GPU: all of it, or what others leave."""
    if machine.gpu is None:
        return 0
    return machine.gpu.usable if machine.gpu_free is None else min(machine.gpu.usable, machine.gpu_free)


def measure_vision_cache(setting: Setting) -> int:
    """Return what image models lose of the KV budget to the cache of image embeddings."""
    counts = setting.model.multimodal and setting.version >= VISION_CACHE_SINCE
    return VISION_CACHE_BYTES if counts else 0


def measure_request(budget: Budget, arguments: Mapping[str, object], length: int) -> int:
    """Return the KV budget under which one request of `length` tokens fits, states included."""
    cell = budget.cell
    tokens = length * (cell.full + cell.ratio * cell.window) + budget.pool.requests * cell.reserved
    if not cell.state:
        return int(tokens)
    share = cfg.get_float(arguments, "mamba_full_memory_ratio", STATE_RATIO)
    return int(max(tokens * (1 + share), tokens + 2 * cell.state))


def find_window(setting: Setting, budget: Budget) -> tuple[float, float]:
    """Return the lowest and the highest mem_fraction_static that work; the range is empty when low > high.

    Low: one request of full context length fits the pool. High: what must stay outside still fits.
    """
    if budget.before <= 0:
        return 1.0, 0.0
    need = measure_request(budget, setting.arguments, setting.context) + measure_vision_cache(setting)
    low = 1 - (budget.after - need) / budget.before
    high = 1 - budget.needs / budget.before
    return ceil(max(0.0, low) * 1000) / 1000, floor(min(1.0, high) * 1000) / 1000


def get_lowest_fraction(budget: Budget) -> float:
    """Return the fraction above which SGLang starts at all: 1 - free after loading / baseline."""
    return 1 - budget.after / budget.before if budget.before > 0 else 1.0


def list_gpu_rows(budget: Budget, machine: Machine) -> tuple[Row, ...]:
    """Return the rows of the GPU table; they add up to the GPU's memory unless the launch does not fit."""
    occupied = machine.gpu.usable - budget.total if machine.gpu is not None else 0
    rows = (
        Row("other processes", occupied, "not free before the start"),
        Row("CUDA and NCCL", budget.context, "measured on an H200"),
        Row("weights", budget.weights, "one rank's share"),
        Row("KV cache", budget.pool.cache_size, f"{budget.pool.tokens} tokens"),
        Row("request states", budget.pool.state_size, f"{budget.pool.states} states"),
        Row("tables", budget.tables, f"{budget.pool.requests} requests x context"),
        Row("CUDA graphs", budget.graphs, "SGLang's own estimate"),
        Row("activations", budget.activations, "one prefill chunk"),
        Row("offloaded layers at work", budget.offload.in_flight, "copied back for each forward"),
    )
    return (*(row for row in rows if row.size > 0), Row("free", budget.left, ""))

"""The KV cache: bytes per token and per request, and how many tokens a budget holds."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from doctor.memory import config as cfg
from doctor.memory.parallel import Ranks
from doctor.memory.quant import Quant
from doctor.memory.shapes import Layer, Model
from doctor.memory.units import ceil_divide
from doctor.memory.weights import Stage

# Bits of one cached value, block scales included: an e8m0 scale for 32 (mxfp8), an fp8 scale for 16 (fp4).
KV_BITS = {
    "fp8_e4m3": 8.0,
    "fp8_e5m2": 8.0,
    "mxfp8": 8.25,
    "fp4_e2m1": 4.5,
    "nvfp4": 4.5,
    "bfloat16": 16.0,
    "bf16": 16.0,
}
STATE_RATIO = 0.9  # --mamba-full-memory-ratio's default, 0.5.4 to 0.5.23
# Without --max-running-requests: tokens / context * 512 within these (model_runner.py and
# kv_cache_configurator.py resolve_max_num_reqs, 0.4.6 to 0.5.23).
FEWEST_REQUESTS, MOST_REQUESTS = 2048, 4096


class Cell(NamedTuple):
    """What one rank keeps: bytes per token in the full and in the sliding-window pool, bytes per request.

    `ratio` is the window pool's share of tokens; `state` bytes are kept for each request in a pool, `reserved`
    bytes for each of max_running_requests.
    """

    full: float
    window: float
    ratio: float
    state: int
    reserved: int
    window_length: int


class Pool(NamedTuple):
    """The pool that fits a budget.

    `tokens` is SGLang's max_total_num_tokens, `window_tokens` the size of the pool for sliding-window
    layers (0: they share the first), `states` how many request states fit (0: the model has none),
    `requests` max_running_requests per attention replica; sizes are bytes on one rank.
    """

    tokens: int
    window_tokens: int
    states: int
    requests: int
    cache_size: int
    state_size: int


def choose_bits(arguments: Mapping[str, object], quant: Quant) -> float:
    """Return the bits of one cached value: --kv-cache-dtype, else those of the model's own dtype."""
    return KV_BITS.get(cfg.get_text(arguments, "kv_cache_dtype"), quant.width * 8.0)


def measure_cell(model: Model, stage: Stage, bits: float) -> Cell:
    """Return a stage's bytes per token and per request.

    Draft layers cost the same per layer as the model's own (0.5.23 pool_configurator.py, EAGLE).
    """
    layers = [*(model.layers[number] for number in stage.layers), *model.draft]
    window = [layer for layer in layers if layer.cache.kind == "window"]
    full = [layer for layer in layers if layer.cache.kind in {"full", "latent"}]
    if not model.window_pool:
        full, window = [*full, *window], []
    return Cell(
        full=sum_tokens(full, bits),
        window=sum_tokens(window, bits) + sum(layer.cache.windowed for layer in layers),
        ratio=model.window_ratio,
        state=sum(layer.cache.state for layer in layers),
        reserved=sum(layer.cache.reserved for layer in layers),
        window_length=max((layer.cache.window for layer in layers), default=0),
    )


def sum_tokens(layers: Iterable[Layer], bits: float) -> float:
    """Return the bytes per token of these layers."""
    return sum(layer.cache.elements * bits / 8 + layer.cache.fixed for layer in layers)


def count_states(budget: float, cell: Cell, arguments: Mapping[str, object], ranks: Ranks) -> int:
    """Return how many request states SGLang allocates (kv_cache_configurator.py _handle_max_mamba_cache).

    --max-mamba-cache-size, else --max-running-requests without radix cache, else the share
    ratio / (1 + ratio) of the budget (--mamba-full-memory-ratio, 0.9). One more slot is padding.
    """
    if not cell.state:
        return 0
    running = cfg.get_int(arguments, "max_running_requests")
    given = cfg.get_int(arguments, "max_mamba_cache_size")
    if given is None and cfg.get_flag(arguments, "disable_radix_cache"):
        given = running
    if given is not None:
        return max(1, given // ranks.attention_dp)
    ratio = cfg.get_float(arguments, "mamba_full_memory_ratio", STATE_RATIO)
    return max(0, int(budget * ratio / (1 + ratio) / cell.state) - 1)


def size_pool(budget: float, cell: Cell, arguments: Mapping[str, object], ranks: Ranks, context: int) -> Pool:
    """Return the pool that `budget` bytes hold; all zeros when not even the states fit.

    --max-total-tokens caps it, and tokens are whole pages. With a window pool, that pool has
    --swa-full-tokens-ratio as many tokens (pool_configurator.py HybridSWAPoolConfigurator).
    """
    states = count_states(budget, cell, arguments, ranks)
    state_size = (states + 1) * cell.state if states else 0
    room = budget - state_size
    reserved = count_requests(count_tokens(room, cell, arguments, context), arguments, ranks, context) * cell.reserved
    tokens = count_tokens(room - reserved, cell, arguments, context)
    window_tokens = int(tokens * cell.ratio) if cell.window else 0
    requests = count_requests(tokens, arguments, ranks, context)
    cache_size = int(tokens * cell.full + window_tokens * cell.window)
    return Pool(tokens, window_tokens, states, requests, cache_size, state_size + (reserved if tokens else 0))


def count_tokens(room: float, cell: Cell, arguments: Mapping[str, object], context: int) -> int:
    """Return the whole pages of tokens that `room` bytes hold, at most --max-total-tokens."""
    per_token = cell.full + cell.window * cell.ratio
    page = cfg.get_int(arguments, "page_size") or 1
    tokens = int(room / per_token) if per_token else context * MOST_REQUESTS
    tokens = min(max(0, tokens), cfg.get_int(arguments, "max_total_tokens") or tokens)
    return max(0, tokens // page * page)


def count_requests(tokens: int, arguments: Mapping[str, object], ranks: Ranks, context: int) -> int:
    """Return max_running_requests per attention replica."""
    given = cfg.get_int(arguments, "max_running_requests")
    if given is not None:
        return max(1, given // ranks.attention_dp)
    return min(max(tokens * 512 // max(1, context), FEWEST_REQUESTS), MOST_REQUESTS)


def measure_bookkeeping(pool: Pool, context: int, page: int) -> int:
    """Return the bytes of the tables beside the pool, which come out of what the fraction leaves free.

    4 bytes for each request and position (req_to_token) and 8 for each free page. Measured on an H200:
    0.63 GB after a pool of 1 085 065 tokens, 4096 requests and 40 960 positions.
    """
    return pool.requests * (context + 4) * 4 + ceil_divide(pool.tokens, max(1, page)) * 8


def count_context(pool: Pool, cell: Cell, length: int) -> int:
    """Return how many requests of `length` tokens the pool holds at once."""
    if length <= 0:
        return 0
    fitting = pool.tokens // length
    if pool.window_tokens:
        fitting = min(fitting, pool.window_tokens // max(1, min(length, cell.window_length)))
    return min(fitting, pool.states) if pool.states else fitting

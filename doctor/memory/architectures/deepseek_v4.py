"""DeepSeek-V4: every layer has a sliding window, and most a KV cache compressed 4 or 128 times."""

from __future__ import annotations

from doctor.memory import config as cfg
from doctor.memory.architectures import parts
from doctor.memory.parallel import share
from doctor.memory.shapes import Cache, Layer, Param

NAMES = frozenset({"DeepseekV4ForCausalLM"})
TYPES = frozenset({"deepseek_v4"})

# --page-size that SGLang sets, and the rows of each compressor's ring (get_compress_state_ring_size, 0.5.12
# to 0.5.23, without speculative decoding); the rings hold fp32 (SGLANG_DSV4_COMPRESS_STATE_DTYPE).
PAGE = 256
RING = {4: 8, 128: 128}
STATE_WIDTH = 4


def build_layer(context: parts.Context, layer: int) -> Layer:
    """Return one decoder layer (models/deepseek_v4.py 0.5.23): every one has experts."""
    ratio = get_ratio(context.config, layer)
    params = (
        *make_attention(context, layer),
        *make_compressor(context, layer, ratio),
        *make_connections(context),
        *make_sparse(context, layer),
        *parts.make_norms(context),
    )
    return Layer(layer, params, make_cache(context.config, ratio))


def get_ratio(config: cfg.Config, layer: int) -> int:
    """Return how many tokens one compressed entry of this layer stands for; 0 when it has none."""
    ratios = cfg.get_list(config.text, "compress_ratios")
    value = ratios[layer] if layer < len(ratios) else 0
    return value if isinstance(value, int) and 0 < value <= 128 else 0


def make_attention(context: parts.Context, layer: int) -> tuple[Param, ...]:
    """Return query, key-value and the grouped low-rank output projections."""
    config, ranks = context.config, context.ranks.attention
    hidden, width = parts.get_hidden(context), cfg.need(config, "head_dim")
    heads, rank = cfg.need(config, "num_attention_heads"), cfg.need(config, "q_lora_rank")
    groups, output = cfg.need(config, "o_groups"), cfg.need(config, "o_lora_rank")
    shapes = {
        "wqkv_a": (rank + width, hidden),
        "wq_b": (share(heads, ranks) * width, rank),
        "wo_a": (share(groups, ranks) * output, heads * width // groups),
        "wo_b": (hidden, share(groups, ranks) * output),
    }
    return tuple(
        param
        for name, shape in shapes.items()
        for param in parts.make_linear(context, layer, f"self_attn.{name}", "attention", shape)
    )


def make_compressor(context: parts.Context, layer: int, ratio: int) -> tuple[Param, ...]:
    """Return the compressor of a compressed layer and, at ratio 4 and below, the indexer with its own."""
    config = context.config
    if not ratio:
        return ()
    hidden, width = parts.get_hidden(context), cfg.need(config, "head_dim")
    # Ratio 4 overlaps its windows, which doubles both projections (layers/attention/dsv4/compressor.py).
    overlap = 2 if ratio == 4 else 1
    own = parts.make_plain(context, "self_attn.compressor", "attention", 2 * overlap * width * hidden)
    if ratio > 4:
        return (own,)
    heads, index = cfg.need(config, "index_n_heads"), cfg.need(config, "index_head_dim")
    shape = (heads * index, cfg.need(config, "q_lora_rank"))
    return (
        own,
        *parts.make_linear(context, layer, "self_attn.indexer.wq_b", "attention", shape),
        parts.make_plain(context, "self_attn.indexer.compressor", "attention", 2 * overlap * index * hidden),
        parts.make_plain(context, "self_attn.indexer.weights_proj", "attention", heads * hidden),
    )


def make_connections(context: parts.Context) -> tuple[Param, ...]:
    """Return the fp32 mixers of the hyper-connections, one before attention and one before the experts."""
    streams = cfg.find(context.config, "hc_mult", default=4)
    elements = streams * (streams + 2) * streams * parts.get_hidden(context)
    return (parts.make_plain(context, "hyper_connections", "other", 2 * elements, 4),)


def make_sparse(context: parts.Context, layer: int) -> tuple[Param, ...]:
    """Return router, routed experts and shared expert."""
    config = context.config
    count, width = cfg.need(config, "n_routed_experts"), cfg.need(config, "moe_intermediate_size")
    shared = cfg.find(config, "n_shared_experts")
    return (
        parts.make_router(context, count),
        *parts.make_experts(context, layer, count, width),
        *(parts.make_mlp(context, layer, shared * width, part="shared") if shared else ()),
    )


def make_cache(config: cfg.Config, ratio: int) -> Cache:
    """Return what a layer keeps, whatever --kv-cache-dtype says (pool_configurator.py DSV4PoolConfigurator).

    A latent entry is fp8 with bf16 rope values and 8 bytes of scales; an index key is fp8 with fp32 scales.
    The ratio-4 ring grows with the window pool, the ratio-128 ring with max_running_requests.
    """
    width, rope = cfg.need(config, "head_dim"), cfg.need(config, "qk_rope_head_dim")
    entry = width - rope + 2 * rope + 8
    window = cfg.find(config, "sliding_window", "window_size", default=128)
    if not ratio:
        return Cache("full", windowed=entry, window=window)
    if ratio > 4:
        reserved = RING[128] * 2 * width * STATE_WIDTH
        return Cache("full", fixed=entry / ratio, windowed=entry, reserved=reserved, window=window)
    index = cfg.need(config, "index_head_dim")
    index_entry = index + index // 128 * 4
    ring = RING[4] / PAGE * 4 * (width + index) * STATE_WIDTH
    return Cache("full", fixed=(entry + index_entry) / ratio, windowed=entry + ring, window=window)


FAMILY = parts.Family(NAMES, TYPES, build_layer, window_pool=(0, 5, 12), window_ratio=0.1)

"""gpt-oss: biases everywhere, MXFP4 experts, and a sliding window in every second layer."""

from __future__ import annotations

from doctor.memory import config as cfg
from doctor.memory.architectures import parts
from doctor.memory.parallel import share
from doctor.memory.shapes import Layer, Param

NAMES = frozenset({"GptOssForCausalLM"})
TYPES = frozenset({"gpt_oss"})


def build_layer(context: parts.Context, layer: int) -> Layer:
    """Return one decoder layer."""
    config = context.config
    heads = parts.get_heads(config)
    count = cfg.need(config, "num_local_experts", "num_experts")
    params = (
        *parts.make_attention(context, layer, heads, bias=True, output_bias=True),
        parts.make_router(context, count),
        *make_experts(context, layer, count),
        *parts.make_norms(context),
    )
    default = "full_attention" if layer % 2 else "sliding_attention"
    windowed = parts.get_layer_type(config, layer, default) == "sliding_attention"
    window = cfg.find(config, "sliding_window", default=128) if windowed else 0
    return Layer(layer, params, parts.make_cache(context, heads, window))


def make_experts(context: parts.Context, layer: int, count: int) -> tuple[Param, ...]:
    """Return the experts with their biases (models/gpt_oss.py, quantization/mxfp4.py 0.5.23)."""
    width = cfg.need(context.config, "intermediate_size")
    local = share(width, context.ranks.moe)
    copies = share(count, context.ranks.experts)
    bias = copies * (2 * local + parts.get_hidden(context))
    return (
        *parts.make_experts(context, layer, count, width),
        parts.make_plain(context, "mlp.experts.weight_bias", "experts", bias),
    )


FAMILY = parts.Family(NAMES, TYPES, build_layer, window_pool=(0, 5, 8))

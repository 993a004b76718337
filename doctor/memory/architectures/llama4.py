"""Llama 4: chunked attention in three of four layers, experts (with a shared one) in every n-th layer."""

from __future__ import annotations

from doctor.memory import config as cfg
from doctor.memory.architectures import parts
from doctor.memory.shapes import Layer, Param

NAMES = frozenset({"Llama4ForCausalLM", "Llama4ForConditionalGeneration"})
TYPES = frozenset({"llama4", "llama4_text"})


def build_layer(context: parts.Context, layer: int) -> Layer:
    """Return one decoder layer (models/llama4.py 0.5.23)."""
    config = context.config
    heads = parts.get_heads(config)
    step = cfg.find(config, "interleave_moe_layer_step")
    sparse = step > 0 and (layer + 1) % step == 0
    mlp = (
        make_sparse(context, layer)
        if sparse
        else parts.make_mlp(context, layer, cfg.need(config, "intermediate_size_mlp", "intermediate_size"))
    )
    # Every fourth layer attends to everything, the others to their own chunk (get_hybrid_layer_ids).
    window = 0 if (layer + 1) % 4 == 0 else cfg.find(config, "attention_chunk_size", default=8192)
    params = (*parts.make_attention(context, layer, heads), *mlp, *parts.make_norms(context))
    return Layer(layer, params, parts.make_cache(context, heads, window))


def make_sparse(context: parts.Context, layer: int) -> tuple[Param, ...]:
    """Return router, experts and the shared expert, all as wide as intermediate_size."""
    count = cfg.need(context.config, "num_local_experts")
    width = cfg.need(context.config, "intermediate_size")
    return (
        parts.make_router(context, count),
        *parts.make_experts(context, layer, count, width),
        *parts.make_mlp(context, layer, width, part="shared"),
    )


FAMILY = parts.Family(NAMES, TYPES, build_layer, window_pool=(0, 5, 8))

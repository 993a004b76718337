"""LongCat-Flash: two latent attentions and two dense MLPs beside one set of experts in every layer."""

from __future__ import annotations

from doctor.memory import config as cfg
from doctor.memory.architectures import deepseek, parts
from doctor.memory.shapes import Layer

NAMES = frozenset({"LongcatFlashForCausalLM"})
TYPES = frozenset({"longcat_flash"})


def build_layer(context: parts.Context, layer: int) -> Layer:
    """Return one decoder layer (models/longcat_flash.py 0.5.23); the router also scores the experts that do nothing."""
    config = context.config
    count = cfg.need(config, "n_routed_experts")
    half = (
        *deepseek.make_attention(context, layer),
        *parts.make_mlp(context, layer, cfg.need(config, "ffn_hidden_size", "intermediate_size")),
        *parts.make_norms(context),
    )
    experts = (
        parts.make_router(context, count + cfg.find(config, "zero_expert_num")),
        *parts.make_experts(context, layer, count, cfg.need(config, "expert_ffn_hidden_size", "moe_intermediate_size")),
    )
    cache = deepseek.make_cache(context)
    return Layer(layer, (*half, *experts, *half), cache._replace(elements=2 * cache.elements, fixed=2 * cache.fixed))


FAMILY = parts.Family(NAMES, TYPES, build_layer)

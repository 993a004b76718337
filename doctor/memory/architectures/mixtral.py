"""Mixtral and its like: every layer has experts as wide as intermediate_size, none is shared."""

from __future__ import annotations

from doctor.memory import config as cfg
from doctor.memory.architectures import parts
from doctor.memory.shapes import Layer

NAMES = frozenset(
    {
        "MixtralForCausalLM",
        "QuantMixtralForCausalLM",
        "PhiMoEForCausalLM",
        "MiniMaxM2ForCausalLM",
        "GraniteMoeForCausalLM",
        "Grok1ForCausalLM",
        "Grok1ModelForCausalLM",
        "DbrxForCausalLM",
    }
)
TYPES = frozenset({"dbrx", "mixtral", "phimoe", "minimax_m2", "granitemoe", "grok"})


def build_layer(context: parts.Context, layer: int) -> Layer:
    """Return one decoder layer."""
    config = context.config
    heads = parts.get_heads(config)
    count = cfg.need(config, "num_local_experts", "num_experts", "moe_num_experts")
    width = cfg.find(config, "moe_intermediate_size") or cfg.need(config, "intermediate_size", "ffn_hidden_size")
    params = (
        *parts.make_attention(
            context,
            layer,
            heads,
            bias=cfg.get_flag(config.text, "attention_bias"),
            qk_norm=cfg.get_flag(config.text, "use_qk_norm"),
        ),
        parts.make_router(context, count),
        *parts.make_experts(context, layer, count, width),
        *parts.make_norms(context),
    )
    return Layer(layer, params, parts.make_cache(context, heads))


FAMILY = parts.Family(NAMES, TYPES, build_layer)

"""Qwen2-MoE and Qwen3-MoE, and the models with the same layer: routed experts, sometimes a shared one."""

from __future__ import annotations

from doctor.memory import config as cfg
from doctor.memory.architectures import parts
from doctor.memory.shapes import Layer, Param

NAMES = frozenset(
    {
        "Qwen2MoeForCausalLM",
        "Qwen3MoeForCausalLM",
        "Qwen3VLMoeForConditionalGeneration",
        "Qwen3OmniMoeForConditionalGeneration",
        "OlmoeForCausalLM",
        "InternS1ForConditionalGeneration",
    }
)
TYPES = frozenset({"qwen2_moe", "qwen3_moe", "qwen3_vl_moe_text", "olmoe"})


def build_layer(context: parts.Context, layer: int) -> Layer:
    """Return one decoder layer, sparse or (mlp_only_layers, decoder_sparse_step) dense."""
    config = context.config
    heads = parts.get_heads(config)
    second = any(name.startswith("Qwen2") for name in cfg.list_architectures(config))
    bias = True if second else cfg.get_flag(config.text, "attention_bias")
    mlp = (
        make_sparse(context, layer)
        if is_sparse(config, layer)
        else parts.make_mlp(context, layer, cfg.need(config, "intermediate_size"))
    )
    attention = parts.make_attention(context, layer, heads, bias=bias, qk_norm=not second)
    return Layer(layer, (*attention, *mlp, *parts.make_norms(context)), parts.make_cache(context, heads))


def is_sparse(config: cfg.Config, layer: int) -> bool:
    """Tell whether this layer has experts."""
    step = cfg.find(config, "decoder_sparse_step", default=1)
    return layer not in cfg.get_list(config.text, "mlp_only_layers")[: cfg.MAX_LAYERS] and (layer + 1) % step == 0


def make_sparse(context: parts.Context, layer: int) -> tuple[Param, ...]:
    """Return experts, router and, when the config has one, the shared expert with its gate."""
    config = context.config
    count = cfg.need(config, "num_experts", "num_local_experts", "n_routed_experts")
    width = cfg.find(config, "moe_intermediate_size") or cfg.need(config, "intermediate_size")
    shared_width = cfg.find(config, "shared_expert_intermediate_size")
    shared = parts.make_mlp(context, layer, shared_width, part="shared") if shared_width else ()
    return (
        *parts.make_experts(context, layer, count, width),
        parts.make_router(context, count + (1 if shared_width else 0)),
        *shared,
    )


FAMILY = parts.Family(NAMES, TYPES, build_layer)

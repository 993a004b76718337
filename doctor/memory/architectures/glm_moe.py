"""GLM-4.5 and its like: grouped-query attention, some dense layers first, then routed and shared experts."""

from __future__ import annotations

from doctor.memory import config as cfg
from doctor.memory.architectures import parts
from doctor.memory.shapes import Layer, Param

NAMES = frozenset(
    {
        "Glm4MoeForCausalLM",
        "Glm4vMoeForConditionalGeneration",
        "BailingMoeForCausalLM",
        "BailingMoeV2ForCausalLM",
        "Ernie4_5_MoeForCausalLM",
        "HunYuanMoEV1ForCausalLM",
        "HYV3ForCausalLM",
        "XverseMoeForCausalLM",
        "DeepseekForCausalLM",
        "DeepseekOCRForCausalLM",
    }
)
TYPES = frozenset({"glm4_moe", "glm4v_moe_text", "bailing_moe", "ernie4_5_moe", "hunyuan_v1_moe", "hy_v3"})
HEAD_NORM = frozenset({"BailingMoeV2ForCausalLM", "HunYuanMoEV1ForCausalLM", "HYV3ForCausalLM"})


def build_layer(context: parts.Context, layer: int) -> Layer:
    """Return one decoder layer."""
    config = context.config
    heads = parts.get_heads(config)
    bias = cfg.get_flag(config.text, "attention_bias") or cfg.get_flag(config.text, "use_qkv_bias")
    named = not HEAD_NORM.isdisjoint(cfg.list_architectures(config))
    norm = named or cfg.get_flag(config.text, "use_qk_norm")
    dense = layer < cfg.find(config, "first_k_dense_replace", "moe_layer_start_index")
    mlp = (
        parts.make_mlp(context, layer, cfg.need(config, "intermediate_size")) if dense else make_sparse(context, layer)
    )
    attention = parts.make_attention(context, layer, heads, bias=bias, qk_norm=norm)
    return Layer(layer, (*attention, *mlp, *parts.make_norms(context)), parts.make_cache(context, heads))


def make_sparse(context: parts.Context, layer: int) -> tuple[Param, ...]:
    """Return router, routed experts and shared experts (whose width is a multiple of one expert's)."""
    config = context.config
    count = cfg.need(config, "n_routed_experts", "num_experts", "moe_num_experts")
    width = cfg.need(config, "moe_intermediate_size")
    shared = cfg.find(config, "n_shared_experts", "num_shared_experts", "moe_num_shared_experts", "num_shared_expert")
    return (
        parts.make_router(context, count),
        *parts.make_experts(context, layer, count, width),
        *(parts.make_mlp(context, layer, shared * width, part="shared") if shared else ()),
    )


FAMILY = parts.Family(NAMES, TYPES, build_layer)

"""Qwen 1 to 3, dense: query, key and value biases up to Qwen2, head norms from Qwen3 on."""

from __future__ import annotations

from doctor.memory import config as cfg
from doctor.memory.architectures import parts
from doctor.memory.shapes import Layer

NAMES = frozenset(
    {
        "QWenLMHeadModel",
        "Qwen2ForCausalLM",
        "Qwen2VLForConditionalGeneration",
        "Qwen2_5_VLForConditionalGeneration",
        "Qwen2AudioForConditionalGeneration",
        "LlavaQwenForCausalLM",
        "Qwen3ForCausalLM",
        "Qwen3VLForConditionalGeneration",
        "Qwen3ASRForConditionalGeneration",
    }
)
TYPES = frozenset({"qwen", "qwen2", "qwen2_5_vl_text", "qwen2_vl_text", "qwen3", "qwen3_vl_text"})


def build_layer(context: parts.Context, layer: int) -> Layer:
    """Return one decoder layer."""
    heads = parts.get_heads(context.config)
    third = is_third(context.config)
    bias = cfg.get_flag(context.config.text, "attention_bias") if third else True
    width = cfg.need(context.config, "intermediate_size")
    # The first Qwen counts both halves of the gated projection (models/qwen.py).
    halved = "QWenLMHeadModel" in cfg.list_architectures(context.config)
    params = (
        *parts.make_attention(context, layer, heads, bias=bias, qk_norm=third),
        *parts.make_mlp(context, layer, width // 2 if halved else width),
        *parts.make_norms(context),
    )
    return Layer(layer, params, parts.make_cache(context, heads))


def is_third(config: cfg.Config) -> bool:
    """Tell Qwen3 from its predecessors."""
    kinds = [*cfg.list_architectures(config), cfg.get_text(config.text, "model_type")]
    return any(kind.lower().startswith("qwen3") for kind in kinds)


FAMILY = parts.Family(NAMES, TYPES, build_layer)

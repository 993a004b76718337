"""Llama and the dense models that differ from it only in biases, head norms or tied embeddings."""

from __future__ import annotations

from doctor.memory import config as cfg
from doctor.memory.architectures import parts
from doctor.memory.shapes import Layer

# models/llama.py and the files that inherit from it or repeat its layer (0.5.23).
NAMES = frozenset(
    {
        "LlamaForCausalLM",
        "MistralForCausalLM",
        "Ministral3ForCausalLM",
        "Mistral3ForConditionalGeneration",
        "LlavaForConditionalGeneration",
        "LlavaLlamaForCausalLM",
        "LlavaMistralForCausalLM",
        "InternVLChatModel",
        "Phi3ForCausalLM",
        "InternLM2ForCausalLM",
        "InternLM3ForCausalLM",
        "BaichuanForCausalLM",
        "ExaoneForCausalLM",
        "Exaone4ForCausalLM",
        "GraniteForCausalLM",
        "OlmoForCausalLM",
        "Olmo2ForCausalLM",
        "OrionForCausalLM",
        "XverseForCausalLM",
        "SolarForCausalLM",
        "StableLmForCausalLM",
        "SeedOssForCausalLM",
        "Glm4ForCausalLM",
        "MiMoForCausalLM",
        "Ernie4_5_ForCausalLM",
        "HunYuanDenseV1ForCausalLM",
        "ChatGLMModel",
        "ChatGLMForConditionalGeneration",
    }
)
TYPES = frozenset(
    {"llama", "chatglm", "mistral", "phi3", "internlm2", "internlm3", "granite", "olmo2", "glm4", "seed_oss"}
)
QK_NORM = frozenset({"Exaone4ForCausalLM", "Olmo2ForCausalLM", "HunYuanDenseV1ForCausalLM"})
QKV_BIAS = frozenset({"SeedOssForCausalLM", "MiMoForCausalLM"})


def build_layer(context: parts.Context, layer: int) -> Layer:
    """Return one decoder layer: grouped-query attention and a gated MLP."""
    config = context.config
    heads = parts.get_heads(config)
    names = set(cfg.list_architectures(config))
    said = cfg.get_flag(config.text, "attention_bias") or cfg.get_flag(config.text, "add_qkv_bias")
    bias = said or not QKV_BIAS.isdisjoint(names)
    params = (
        *parts.make_attention(context, layer, heads, bias=bias, qk_norm=not QK_NORM.isdisjoint(names)),
        *parts.make_mlp(context, layer, get_width(context), bias=cfg.get_flag(config.text, "mlp_bias")),
        *parts.make_norms(context),
    )
    return Layer(layer, params, parts.make_cache(context, heads))


def get_width(context: parts.Context) -> int:
    """Return the width of the MLP, four times the hidden size when the config does not say."""
    given = cfg.find(context.config, "intermediate_size", "ffn_hidden_size", "n_inner")
    return given or 4 * parts.get_hidden(context)


FAMILY = parts.Family(NAMES, TYPES, build_layer)

"""Qwen3-Next and Qwen3.5: gated delta-net layers with a state per request, full attention in every fourth."""

from __future__ import annotations

from doctor.memory import config as cfg
from doctor.memory.architectures import parts, qwen_moe
from doctor.memory.parallel import share
from doctor.memory.shapes import Cache, Layer, Param

NAMES = frozenset(
    {
        "Qwen3NextForCausalLM",
        "Qwen3_5ForCausalLM",
        "Qwen3_5MoeForCausalLM",
        "Qwen3_5ForConditionalGeneration",
        "Qwen3_5MoeForConditionalGeneration",
    }
)
TYPES = frozenset({"qwen3_next", "qwen3_5_text", "qwen3_5_moe_text"})
STATE_WIDTHS = {"float32": 4, "bfloat16": 2, "float16": 2}


def build_layer(context: parts.Context, layer: int) -> Layer:
    """Return one decoder layer, linear or full attention, with experts when the model has them."""
    config = context.config
    interval = cfg.find(config, "full_attention_interval", default=4)
    default = "full_attention" if (layer + 1) % interval == 0 else "linear_attention"
    full = parts.get_layer_type(config, layer, default) in {"full_attention", "attention"}
    heads = parts.get_heads(config)
    mixer = (
        parts.make_attention(context, layer, heads, qk_norm=True, gated=True)
        if full
        else make_linear_attention(context, layer)
    )
    cache = parts.make_cache(context, heads) if full else make_state(context)
    return Layer(layer, (*mixer, *make_mlp(context, layer), *parts.make_norms(context)), cache)


def make_mlp(context: parts.Context, layer: int) -> tuple[Param, ...]:
    """Return experts for the MoE models, else a dense MLP."""
    config = context.config
    if cfg.find(config, "num_experts") and qwen_moe.is_sparse(config, layer):
        return qwen_moe.make_sparse(context, layer)
    return parts.make_mlp(context, layer, cfg.need(config, "intermediate_size"))


def get_linear_widths(config: cfg.Config) -> tuple[int, int, int]:
    """Return the whole widths of keys and of values, and the number of value heads."""
    keys = cfg.need(config, "linear_num_key_heads") * cfg.need(config, "linear_key_head_dim")
    value_heads = cfg.need(config, "linear_num_value_heads")
    return keys, value_heads * cfg.need(config, "linear_value_head_dim"), value_heads


def make_linear_attention(context: parts.Context, layer: int) -> tuple[Param, ...]:
    """Return the gated delta net (models/qwen3_next.py Qwen3GatedDeltaNet 0.5.23)."""
    config, ranks = context.config, context.ranks.attention
    hidden = parts.get_hidden(context)
    keys, values, heads = get_linear_widths(config)
    projected = share(2 * keys + 2 * values, ranks)
    kernel = cfg.find(config, "linear_conv_kernel_dim", default=4)
    return (
        parts.make_plain(context, "linear_attn.conv1d", "attention", share(2 * keys + values, ranks) * kernel),
        *parts.make_linear(context, layer, "linear_attn.in_proj_qkvz", "attention", (projected, hidden)),
        *parts.make_linear(context, layer, "linear_attn.in_proj_ba", "attention", (share(2 * heads, ranks), hidden)),
        parts.make_plain(context, "linear_attn.decay", "attention", 2 * share(heads, ranks), 4),
        *parts.make_linear(context, layer, "linear_attn.out_proj", "attention", (hidden, share(values, ranks))),
    )


def make_state(context: parts.Context) -> Cache:
    """Return the bytes one request's state takes in this layer (configs/mamba_utils.py mamba_cache_per_req).

    The convolution's last columns in 16 bits, and one key x value matrix per value head, fp32 unless
    --mamba-ssm-dtype or the config says otherwise.
    """
    config, ranks = context.config, context.ranks.attention
    keys, values, heads = get_linear_widths(config)
    kernel = cfg.find(config, "linear_conv_kernel_dim", default=4)
    convolution = share(2 * keys + values, ranks) * (kernel - 1) * 2
    matrix = cfg.need(config, "linear_value_head_dim") * cfg.need(config, "linear_key_head_dim")
    return Cache("state", state=convolution + share(heads, ranks) * matrix * get_state_width(context))


def get_state_width(context: parts.Context) -> int:
    """Return the bytes of one element of the recurrent state."""
    given = cfg.get_text(context.arguments, "mamba_ssm_dtype")
    return STATE_WIDTHS.get(given or cfg.get_text(context.config.text, "mamba_ssm_dtype"), 4)


FAMILY = parts.Family(NAMES, TYPES, build_layer)

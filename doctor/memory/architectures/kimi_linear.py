"""Kimi-Linear: delta attention with a state per request, latent attention in every fourth layer, experts."""

from __future__ import annotations

from doctor.memory import config as cfg
from doctor.memory.architectures import deepseek, glm_moe, parts, qwen_next
from doctor.memory.parallel import share
from doctor.memory.shapes import Cache, Layer, Param

NAMES = frozenset({"KimiLinearForCausalLM"})
TYPES = frozenset({"kimi_linear"})


def build_layer(context: parts.Context, layer: int) -> Layer:
    """Return one decoder layer (models/kimi_linear.py 0.5.23)."""
    config = context.config
    dense = layer < cfg.find(config, "first_k_dense_replace")
    mlp = (
        parts.make_mlp(context, layer, cfg.need(config, "intermediate_size"))
        if dense
        else glm_moe.make_sparse(context, layer)
    )
    full = is_full(config, layer)
    mixer = deepseek.make_attention(context, layer) if full else make_delta_attention(context, layer)
    cache = deepseek.make_cache(context) if full else make_state(context)
    return Layer(layer, (*mixer, *mlp, *parts.make_norms(context)), cache)


def is_full(config: cfg.Config, layer: int) -> bool:
    """Tell whether a layer has latent attention; the config counts layers from one."""
    linear = cfg.get_map(config.text, "linear_attn_config")
    return layer + 1 not in cfg.get_list(linear, "kda_layers")[: cfg.MAX_LAYERS]


def get_widths(context: parts.Context) -> tuple[int, int, int]:
    """Return this rank's heads, the width of one, and the length of the convolutions."""
    linear = cfg.get_map(context.config.text, "linear_attn_config")
    heads, width = cfg.get_int(linear, "num_heads"), cfg.get_int(linear, "head_dim")
    if heads is None or width is None:
        raise cfg.MissingSizeError("linear_attn_config.num_heads and head_dim")
    return share(heads, context.ranks.attention), width, cfg.get_int(linear, "short_conv_kernel_size") or 4


def make_delta_attention(context: parts.Context, layer: int) -> tuple[Param, ...]:
    """Return Kimi delta attention; the first halves of its two low-rank gates are on every rank."""
    hidden = parts.get_hidden(context)
    heads, width, kernel = get_widths(context)
    inner = heads * width
    rows = 3 * inner + heads + 2 * width
    return (
        *parts.make_linear(context, layer, "self_attn.fused_qkvbfg_a_proj", "attention", (rows, hidden)),
        parts.make_plain(context, "self_attn.fused_fg_b_proj", "attention", 2 * width * inner),
        parts.make_plain(context, "self_attn.conv1d", "attention", 3 * inner * kernel),
        parts.make_plain(context, "self_attn.decay", "attention", inner + heads, 4),
        *parts.make_linear(context, layer, "self_attn.o_proj", "attention", (hidden, inner)),
    )


def make_state(context: parts.Context) -> Cache:
    """Return the bytes of one request's state in one layer (configs/mamba_utils.py KimiLinearStateShape)."""
    heads, width, kernel = get_widths(context)
    convolution = 3 * heads * width * (kernel - 1) * 2
    return Cache("state", state=convolution + heads * width * width * qwen_next.get_state_width(context))


FAMILY = parts.Family(NAMES, TYPES, build_layer)

"""LFM2: short convolutions with a few columns of state per request, attention in every third layer or so."""

from __future__ import annotations

from doctor.memory import config as cfg
from doctor.memory.architectures import parts
from doctor.memory.parallel import share
from doctor.memory.shapes import Cache, Layer, Param
from doctor.memory.units import round_up

NAMES = frozenset({"Lfm2ForCausalLM"})
TYPES = frozenset({"lfm2"})


def build_layer(context: parts.Context, layer: int) -> Layer:
    """Return one decoder layer (models/lfm2.py 0.5.23)."""
    config = context.config
    heads = parts.get_heads(config)
    full = parts.get_layer_type(config, layer, "conv") == "full_attention"
    mixer = parts.make_attention(context, layer, heads, qk_norm=True) if full else make_convolution(context, layer)
    cache = parts.make_cache(context, heads) if full else make_state(context)
    mlp = parts.make_mlp(context, layer, get_width(config))
    return Layer(layer, (*mixer, *mlp, *parts.make_norms(context)), cache)


def get_width(config: cfg.Config) -> int:
    """Return the width of the MLP: two thirds of the given one, times a factor, in whole multiples, when adjusted."""
    given = cfg.need(config, "block_ff_dim", "intermediate_size")
    if config.text.get("block_auto_adjust_ff_dim") is False:
        return given
    scaled = int(2 * given / 3 * cfg.get_float(config.text, "block_ffn_dim_multiplier", 1.0))
    return round_up(scaled, cfg.find(config, "block_multiple_of", default=256))


def make_convolution(context: parts.Context, layer: int) -> tuple[Param, ...]:
    """Return a gated short convolution."""
    hidden = parts.get_hidden(context)
    local = share(hidden, context.ranks.attention)
    kernel = cfg.find(context.config, "conv_L_cache", default=3)
    return (
        *parts.make_linear(context, layer, "conv.in_proj", "attention", (3 * local, hidden)),
        parts.make_plain(context, "conv.conv", "attention", local * kernel),
        *parts.make_linear(context, layer, "conv.out_proj", "attention", (hidden, local)),
    )


def make_state(context: parts.Context) -> Cache:
    """Return the last columns of one request's convolution, in 16 bits."""
    local = share(parts.get_hidden(context), context.ranks.attention)
    return Cache("state", state=local * (cfg.find(context.config, "conv_L_cache", default=3) - 1) * 2)


FAMILY = parts.Family(NAMES, TYPES, build_layer, tied=True)

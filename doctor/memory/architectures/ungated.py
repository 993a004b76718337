"""Dense models whose MLP has two matrices instead of three: StarCoder2, Apertus, Arcee."""

from __future__ import annotations

from doctor.memory import config as cfg
from doctor.memory.architectures import parts
from doctor.memory.shapes import Layer

# models/starcoder2.py, apertus.py and arcee.py (0.5.23).
NAMES = frozenset({"Starcoder2ForCausalLM", "ApertusForCausalLM", "ArceeForCausalLM"})
TYPES = frozenset({"starcoder2", "apertus", "arcee"})


def build_layer(context: parts.Context, layer: int) -> Layer:
    """Return one decoder layer; StarCoder2 has biases everywhere, Apertus norms of its heads."""
    config = context.config
    heads = parts.get_heads(config)
    bias = cfg.get_flag(config.text, "use_bias")
    norm = cfg.get_flag(config.text, "qk_norm") or "ApertusForCausalLM" in cfg.list_architectures(config)
    params = (
        *parts.make_attention(context, layer, heads, bias=bias, output_bias=bias, qk_norm=norm),
        *parts.make_mlp(context, layer, cfg.need(config, "intermediate_size"), gated=False, bias=bias),
        *parts.make_norms(context),
    )
    return Layer(layer, params, parts.make_cache(context, heads))


FAMILY = parts.Family(NAMES, TYPES, build_layer)

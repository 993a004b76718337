"""MiMo-V2: most layers look at a short window with heads of their own, nearly all have experts."""

from __future__ import annotations

from collections.abc import Mapping

from doctor.memory import config as cfg
from doctor.memory.architectures import deepseek, parts
from doctor.memory.shapes import Layer

NAMES = frozenset({"MiMoV2FlashForCausalLM", "MiMoV2ForCausalLM"})
TYPES = frozenset({"mimo_v2_flash", "mimo_v2"})


def build_layer(context: parts.Context, layer: int) -> Layer:
    """Return one decoder layer (models/mimo_v2.py 0.5.23)."""
    config = context.config
    windowed = is_marked(config.text, "hybrid_layer_pattern", layer)
    heads = get_window_heads(config) if windowed else get_full_heads(config)
    mlp = (
        deepseek.make_sparse(context, layer)
        if is_marked(config.text, "moe_layer_freq", layer)
        else parts.make_mlp(context, layer, cfg.need(config, "intermediate_size"))
    )
    bias = cfg.get_flag(config.text, "attention_bias")
    params = (*parts.make_attention(context, layer, heads, bias=bias), *mlp, *parts.make_norms(context))
    window = cfg.find(config, "sliding_window", "sliding_window_size", default=128) if windowed else 0
    return Layer(layer, params, parts.make_cache(context, heads, window))


def is_marked(data: Mapping[str, object], name: str, layer: int) -> bool:
    """Tell whether a list of zeros and ones has a one for this layer; draft layers, behind its end, have none."""
    marks = cfg.get_list(data, name)
    return layer < len(marks) and marks[layer] == 1


def get_full_heads(config: cfg.Config) -> parts.Heads:
    """Return the heads of a layer that looks at everything."""
    return parts.get_heads(config)._replace(v_dim=cfg.find(config, "v_head_dim"))


def get_window_heads(config: cfg.Config) -> parts.Heads:
    """Return the heads of a layer with a window, those of the other layers where the config names none."""
    full = get_full_heads(config)
    return parts.Heads(
        query=cfg.find(config, "swa_num_attention_heads", default=full.query),
        key=cfg.find(config, "swa_num_key_value_heads", default=full.key),
        dim=cfg.find(config, "swa_head_dim", default=full.dim),
        v_dim=cfg.find(config, "swa_v_head_dim", default=full.v_dim),
    )


FAMILY = parts.Family(NAMES, TYPES, build_layer, window_pool=(0, 5, 8))

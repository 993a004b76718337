"""Granite 4 (Mamba-2 or attention, then experts) and Falcon-H1 (both in every layer, then a dense MLP)."""

from __future__ import annotations

from doctor.memory import config as cfg
from doctor.memory.architectures import nemotron_h, parts
from doctor.memory.shapes import Layer, Param

FALCON = "FalconH1ForCausalLM"
NAMES = frozenset({"GraniteMoeHybridForCausalLM", FALCON})
TYPES = frozenset({"granitemoehybrid", "falcon_h1"})


def build_layer(context: parts.Context, layer: int) -> Layer:
    """Return one decoder layer (models/granitemoehybrid.py and falcon_h1.py 0.5.23)."""
    config = context.config
    both = FALCON in cfg.list_architectures(config)
    kind = parts.get_layer_type(config, layer, "attention")
    heads = parts.get_heads(config)
    mixer: tuple[Param, ...] = ()
    cache = parts.make_cache(context, heads)
    if both or kind == "attention":
        mixer = parts.make_attention(context, layer, heads, bias=cfg.get_flag(config.text, "attention_bias"))
    if both or kind == "mamba":
        state = nemotron_h.make_state(context)
        mixer = (*mixer, *nemotron_h.make_mamba(context, layer))
        cache = cache._replace(state=state.state) if both else state
    return Layer(layer, (*mixer, *make_mlp(context, layer), *parts.make_norms(context)), cache)


def make_mlp(context: parts.Context, layer: int) -> tuple[Param, ...]:
    """Return router, experts and shared MLP of Granite (the small ones have no experts), Falcon's dense MLP."""
    config = context.config
    shared = cfg.find(config, "shared_intermediate_size")
    if not shared:
        return parts.make_mlp(context, layer, cfg.need(config, "intermediate_size"))
    count = cfg.find(config, "num_local_experts")
    experts = (
        (
            parts.make_router(context, count),
            *parts.make_experts(context, layer, count, cfg.need(config, "intermediate_size")),
        )
        if count
        else ()
    )
    return (*experts, *parts.make_mlp(context, layer, shared, part="shared"))


FAMILY = parts.Family(NAMES, TYPES, build_layer)

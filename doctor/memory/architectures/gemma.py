"""Gemma 1 to 3: wide heads, tied embeddings, and from Gemma 2 on sliding-window layers between full ones."""

from __future__ import annotations

from doctor.memory import config as cfg
from doctor.memory.architectures import parts
from doctor.memory.shapes import Layer

NAMES = frozenset({"GemmaForCausalLM", "Gemma2ForCausalLM", "Gemma3ForCausalLM", "Gemma3ForConditionalGeneration"})
TYPES = frozenset({"gemma", "gemma2", "gemma3", "gemma3_text"})


def build_layer(context: parts.Context, layer: int) -> Layer:
    """Return one decoder layer; Gemma 2 and 3 have four norms, Gemma 3 also normalizes heads."""
    config = context.config
    heads = parts.get_heads(config)
    generation = get_generation(config)
    params = (
        *parts.make_attention(context, layer, heads, qk_norm=generation == 3),
        *parts.make_mlp(context, layer, cfg.need(config, "intermediate_size")),
        *parts.make_norms(context, 2 if generation == 1 else 4),
    )
    return Layer(layer, params, parts.make_cache(context, heads, get_window(config, layer, generation)))


def get_generation(config: cfg.Config) -> int:
    """Return 1, 2 or 3."""
    kinds = " ".join([*cfg.list_architectures(config), cfg.get_text(config.text, "model_type")]).lower()
    return next((number for number in (3, 2) if f"gemma{number}" in kinds), 1)


def get_window(config: cfg.Config, layer: int, generation: int) -> int:
    """Return the layer's window, 0 for a full layer: every second of Gemma 2, five of six of Gemma 3."""
    if generation == 1:
        return 0
    pattern = cfg.find(config, "sliding_window_pattern", default=2 if generation == 2 else 6)
    default = "full_attention" if (layer + 1) % pattern == 0 else "sliding_attention"
    kind = parts.get_layer_type(config, layer, default)
    return cfg.find(config, "sliding_window", default=4096) if kind == "sliding_attention" else 0


# SGLang gives these models one pool for all layers, so windows save no memory (is_hybrid_swa_model, 0.5.23).
FAMILY = parts.Family(NAMES, TYPES, build_layer, tied=True)

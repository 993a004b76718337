"""What an unknown architecture most likely looks like: grouped-query or latent attention, dense or sparse."""

from __future__ import annotations

from doctor.memory import config as cfg
from doctor.memory.architectures import deepseek, glm_moe, llama, parts, qwen_moe
from doctor.memory.shapes import Layer

NAMES: frozenset[str] = frozenset()
TYPES: frozenset[str] = frozenset()


def build_layer(context: parts.Context, layer: int) -> Layer:
    """Return a layer of the known family whose sizes the config names."""
    config = context.config
    if cfg.find(config, "kv_lora_rank") and cfg.find(config, "qk_nope_head_dim"):
        return deepseek.build_layer(context, layer)
    if cfg.find(config, "n_routed_experts", "moe_num_experts"):
        return glm_moe.build_layer(context, layer)
    if cfg.find(config, "num_experts", "num_local_experts"):
        return qwen_moe.build_layer(context, layer)
    return llama.build_layer(context, layer)


FAMILY = parts.Family(NAMES, TYPES, build_layer)

"""GLM-4.7-Flash and its like: DeepSeek's layer in a model that the grouped offloader does not know."""

from __future__ import annotations

from doctor.memory.architectures import deepseek, parts

# models/glm4_moe_lite.py has its own model class, without offloader arguments (0.5.23).
NAMES = frozenset({"Glm4MoeLiteForCausalLM", "HYV4ForCausalLM"})
TYPES = frozenset({"glm4_moe_lite"})

FAMILY = parts.Family(NAMES, TYPES, deepseek.build_layer)

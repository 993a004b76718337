"""GLM-4.7-Flash, MiniCPM3 and their like: DeepSeek's layer in a model that the grouped offloader does not know."""

from __future__ import annotations

from doctor.memory.architectures import deepseek, parts

# models/glm4_moe_lite.py and minicpm3.py have their own model classes, without offloader arguments (0.5.23).
NAMES = frozenset({"Glm4MoeLiteForCausalLM", "HYV4ForCausalLM", "MiniCPM3ForCausalLM"})
TYPES = frozenset({"glm4_moe_lite", "minicpm3"})

FAMILY = parts.Family(NAMES, TYPES, deepseek.build_layer)

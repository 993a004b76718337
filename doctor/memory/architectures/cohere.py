"""Command-R and Aya: Llama's layer with one norm, and a head that is always the embedding (models/commandr.py)."""

from __future__ import annotations

from doctor.memory.architectures import llama, parts

NAMES = frozenset({"CohereForCausalLM", "Cohere2ForCausalLM", "Cohere2VisionForConditionalGeneration"})
TYPES = frozenset({"cohere", "cohere2"})

FAMILY = parts.Family(NAMES, TYPES, llama.build_layer, tied=True)

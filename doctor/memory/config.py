"""Typed, bounded access to a model's config.json; every value in it is untrusted."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple, TypeGuard

from doctor.errors import DoctorError

MAX_JSON_BYTES = 64 << 20  # the largest published index (Kimi-K2, 140 000 tensors) has 12 MB
MAX_NUMBER = 1 << 40  # no size in a config comes near; larger ones would only slow the arithmetic
MAX_LAYERS = 2048  # each layer is walked; the deepest published model has 126

# What a model's number of attention heads is called.
HEAD_KEYS = ("num_attention_heads", "n_head", "n_heads", "num_heads")
# Where multimodal configs keep the language model (SGLang 0.5.23, utils/hf_transformers/common.py).
TEXT_KEYS = ("text_config", "llm_config", "language_config", "thinker_config")

# Sizes that some configs (Hunyuan, Gemma 3n) repeat for every layer.
LISTED = ("intermediate_size", "moe_intermediate_size", "moe_topk", "num_experts_per_tok", "num_shared_expert")


class MissingSizeError(Exception):
    """A size that the computation needs is absent from the config; `name` says which one."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name


class Config(NamedTuple):
    """A model's config: `whole` as the file has it, `text` the language model's part of it."""

    whole: Mapping[str, object]
    text: Mapping[str, object]


def make_config(whole: Mapping[str, object]) -> Config:
    """Find the language model's section; a plain text model is its own section."""
    text = whole
    for _ in range(2):  # Qwen3-Omni nests thinker_config.text_config
        inner = next((text[k] for k in TEXT_KEYS if isinstance(text.get(k), Mapping)), None)
        text = inner if isinstance(inner, Mapping) else text
    return Config(whole, spread(text))


def spread(text: Mapping[str, object]) -> Mapping[str, object]:
    """Bring sizes in sections of their own (DBRX) and lists of one size per layer into the usual form."""
    sections = {**get_map(text, "attn_config"), **get_map(text, "ffn_config")}
    uniform = {name: value[0] for name in LISTED if is_uniform(value := text.get(name))}
    return {**sections, **text, **uniform} if sections or uniform else text


def is_uniform(value: object) -> TypeGuard[list[object]]:
    """Tell whether a value is a list that says the same for every layer."""
    return isinstance(value, list) and 1 < len(value) <= MAX_LAYERS and value.count(value[0]) == len(value)


def read_json(path: Path, limit: int = MAX_JSON_BYTES) -> Mapping[str, object]:
    """Return the JSON object in `path`; raise DoctorError when it is unreadable, too large or no object."""
    try:
        with path.open("rb") as file:
            raw = file.read(limit + 1)
    except OSError as error:
        raise DoctorError(f"{path}: {error.strerror or error}") from error
    if len(raw) > limit:
        raise DoctorError(f"{path}: larger than {limit >> 20} MiB, not a model's JSON file")
    return parse_json(raw, path)


def parse_json(raw: bytes, path: Path) -> Mapping[str, object]:
    """Return the JSON object in `raw`; `path` only names it in the error."""
    try:
        data = json.loads(raw)
    except (ValueError, RecursionError) as error:
        reason = "nested too deeply" if isinstance(error, RecursionError) else str(error)[:120]
        raise DoctorError(f"{path}: not JSON ({reason})", hint="download the file again") from error
    if not isinstance(data, dict):
        raise DoctorError(f"{path}: holds {type(data).__name__}, not a JSON object")
    return data


def get_int(data: Mapping[str, object], *names: str) -> int | None:
    """Return the first of `names` that holds a positive whole number, else None."""
    for name in names:
        value = data.get(name)
        number = int(value) if isinstance(value, float) and value.is_integer() else value
        if isinstance(number, int) and not isinstance(number, bool) and 0 < number <= MAX_NUMBER:
            return number
    return None


def get_float(data: Mapping[str, object], name: str, default: float) -> float:
    """Return a finite non-negative number, else `default`."""
    value = data.get(name)
    good = isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value < 1e15
    return float(value) if good and isinstance(value, (int, float)) else default


def get_flag(data: Mapping[str, object], name: str) -> bool:
    """Return True only for a literal true (or a number that is not zero)."""
    value = data.get(name)
    return bool(value) if isinstance(value, (bool, int)) else False


def get_text(data: Mapping[str, object], *names: str) -> str:
    """Return the first of `names` that holds a string, else the empty string."""
    return next((v for n in names if isinstance(v := data.get(n), str)), "")


def get_map(data: Mapping[str, object], *names: str) -> Mapping[str, object]:
    """Return the first of `names` that holds an object, else an empty one."""
    return next((v for n in names if isinstance(v := data.get(n), dict)), {})


def get_list(data: Mapping[str, object], *names: str) -> list[object]:
    """Return the first of `names` that holds a list, else an empty one."""
    return next((v for n in names if isinstance(v := data.get(n), list)), [])


def need(config: Config, *names: str) -> int:
    """Return a size of the language model; raise MissingSizeError with its first name when absent."""
    value = get_int(config.text, *names)
    if value is None:
        value = get_int(config.whole, *names)
    if value is None:
        raise MissingSizeError(names[0])
    return value


def find(config: Config, *names: str, default: int = 0) -> int:
    """Return a size of the language model, or `default` when absent."""
    value = get_int(config.text, *names)
    return default if value is None else value


def count_layers(config: Config) -> int:
    """Return the number of decoder layers; raise DoctorError when it is absurd."""
    layers = need(config, "num_hidden_layers", "n_layer", "num_layers", "n_layers")
    if layers > MAX_LAYERS:
        raise DoctorError(f"config.json: num_hidden_layers is {layers}; at most {MAX_LAYERS} are believed")
    return layers


def list_architectures(config: Config) -> list[str]:
    """Return the architecture names, the outer model's first, then the language model's own."""
    names = [*get_list(config.whole, "architectures"), *get_list(config.text, "architectures")]
    return [name for name in names if isinstance(name, str)]


# In SGLang's order of preference (0.5.23, utils/hf_transformers/common.py CONTEXT_LENGTH_KEYS).
LENGTH_KEYS = (
    "max_sequence_length",
    "seq_length",
    "max_seq_len",
    "model_max_length",
    "max_position_embeddings",
)


def get_context_length(config: Config) -> int:
    """Return the context length in tokens that SGLang derives from the config, 2048 when nothing says.

    The rope scaling factor multiplies it, unless the scaling is llama3's or names the original length
    (0.5.23, utils/hf_transformers/common.py get_context_length).
    """
    # transformers 5 writes rope_parameters and still shows them as rope_scaling
    scaling = get_map(config.text, "rope_scaling", "rope_parameters")
    included = "original_max_position_embeddings" in scaling or get_text(scaling, "rope_type") == "llama3"
    factor = 1.0 if included else get_float(scaling, "factor", 1.0)
    return min(int(find(config, *LENGTH_KEYS, default=2048) * factor), MAX_NUMBER)


def get_head_dim(config: Config) -> int:
    """Return the width of one attention head: head_dim when given, else hidden size over heads."""
    given = get_int(config.text, "head_dim", "attention_head_dim", "kv_channels")
    return given or max(1, need(config, "hidden_size", "n_embd", "d_model") // need(config, *HEAD_KEYS))

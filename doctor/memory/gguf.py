"""The header of a GGUF file: the model's shape from its metadata, and each tensor's bytes."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from math import prod
from pathlib import Path
from typing import BinaryIO

from doctor.errors import DoctorError
from doctor.memory import config as cfg
from doctor.memory.shapes import Tensor
from doctor.memory.units import ceil_divide

# Fixed-width value types by number: u8 i8 u16 i16 u32 i32 f32 bool u64 i64 f64 (ggml docs/gguf.md).
SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
STRING, ARRAY = 8, 9
MAX_VALUES = 8_000_000  # elements of one array; the largest vocabulary's merges are below a million
MAX_STRING = 16 << 20
MAX_HEADER = 512 << 20

# Tensor types by number: name, elements per block, bytes per block (ggml.h and ggml-common.h).
TYPES = {
    0: ("f32", 1, 4),
    1: ("f16", 1, 2),
    2: ("q4_0", 32, 18),
    3: ("q4_1", 32, 20),
    6: ("q5_0", 32, 22),
    7: ("q5_1", 32, 24),
    8: ("q8_0", 32, 34),
    9: ("q8_1", 32, 36),
    10: ("q2_k", 256, 84),
    11: ("q3_k", 256, 110),
    12: ("q4_k", 256, 144),
    13: ("q5_k", 256, 176),
    14: ("q6_k", 256, 210),
    15: ("q8_k", 256, 292),
    16: ("iq2_xxs", 256, 66),
    17: ("iq2_xs", 256, 74),
    18: ("iq3_xxs", 256, 98),
    19: ("iq1_s", 256, 50),
    20: ("iq4_nl", 32, 18),
    21: ("iq3_s", 256, 110),
    22: ("iq2_s", 256, 82),
    23: ("iq4_xs", 256, 136),
    24: ("i8", 1, 1),
    25: ("i16", 1, 2),
    26: ("i32", 1, 4),
    27: ("i64", 1, 8),
    28: ("f64", 1, 8),
    29: ("iq1_m", 256, 56),
    30: ("bf16", 1, 2),
    34: ("tq1_0", 256, 54),
    35: ("tq2_0", 256, 66),
    39: ("mxfp4", 32, 17),
}

# config.json names for the metadata keys below "<architecture>." (ggml docs/gguf.md).
KEYS = {
    "block_count": "num_hidden_layers",
    "embedding_length": "hidden_size",
    "feed_forward_length": "intermediate_size",
    "attention.head_count": "num_attention_heads",
    "attention.head_count_kv": "num_key_value_heads",
    "attention.key_length": "head_dim",
    "attention.key_length_mla": "qk_head_dim",
    "attention.value_length_mla": "v_head_dim",
    "rope.dimension_count": "qk_rope_head_dim",
    "attention.kv_lora_rank": "kv_lora_rank",
    "attention.q_lora_rank": "q_lora_rank",
    "attention.sliding_window": "sliding_window",
    "context_length": "max_position_embeddings",
    "vocab_size": "vocab_size",
    "expert_count": "num_experts",
    "expert_used_count": "num_experts_per_tok",
    "expert_feed_forward_length": "moe_intermediate_size",
    "leading_dense_block_count": "first_k_dense_replace",
}


# model_type values of config.json for architectures that GGUF writes differently.
MODEL_TYPES = {
    "qwen2moe": "qwen2_moe",
    "qwen3moe": "qwen3_moe",
    "qwen3next": "qwen3_next",
    "deepseek2": "deepseek_v3",
    "gpt-oss": "gpt_oss",
    "glm4moe": "glm4_moe",
    "minimax-m2": "minimax_m2",
    "seed_oss": "seed_oss",
}


def read_gguf(path: Path) -> tuple[Mapping[str, object], tuple[Tensor, ...], int]:
    """Return a config.json-like mapping, the tensors and the file's bytes.

    Raises DoctorError when `path` is no GGUF file or its header is damaged.
    """
    try:
        with path.open("rb") as file:
            metadata, tensors = read_header(file)
            return make_config(metadata), tensors, file.seek(0, 2)
    except OSError as error:
        raise DoctorError(f"{path}: {error.strerror or error}") from error
    except (ValueError, struct.error) as error:
        raise DoctorError(f"{path.name}: not a readable GGUF header ({error})") from error


def read_header(file: BinaryIO) -> tuple[dict[str, object], tuple[Tensor, ...]]:
    """Return the metadata and the tensors; raise ValueError or struct.error when damaged."""
    if file.read(4) != b"GGUF":
        raise ValueError("it does not begin with GGUF")
    version, tensor_count, value_count = unpack(file, "IQQ")
    if not 2 <= version <= 3 or tensor_count > 1_000_000 or value_count > 65_536:
        raise ValueError(f"version {version}, {tensor_count} tensors, {value_count} values")
    metadata: dict[str, object] = {}
    for _ in range(value_count):
        key = read_string(file)
        metadata[key] = read_value(file, unpack(file, "I")[0])
    return metadata, tuple(read_tensor(file) for _ in range(tensor_count))


def unpack(file: BinaryIO, layout: str) -> tuple[int, ...]:
    """Read little-endian values without padding; raise when the header ends or grows beyond its bound."""
    if file.tell() > MAX_HEADER:
        raise ValueError("the header does not end")
    return struct.unpack("<" + layout, file.read(struct.calcsize("<" + layout)))


def read_string(file: BinaryIO) -> str:
    """Read a length-prefixed string, keeping only what a name needs of a long one."""
    (length,) = unpack(file, "Q")
    if length > MAX_STRING:
        raise ValueError(f"a string of {length} bytes")
    text = file.read(min(length, 256))
    file.seek(length - len(text), 1)
    return text.decode("utf-8", "replace")


def read_value(file: BinaryIO, kind: int) -> object:
    """Read one metadata value; of an array only its length (as a range) or its numbers are kept."""
    if kind in SCALARS:
        return unpack(file, SCALARS[kind])[0]
    if kind == STRING:
        return read_string(file)
    if kind != ARRAY:
        raise ValueError(f"value type {kind}")
    inner, length = unpack(file, "IQ")
    if length > MAX_VALUES or inner == ARRAY:
        raise ValueError(f"an array of {length} values")
    if inner == STRING:
        for _ in range(length):
            read_string(file)
        return range(length)
    return list(unpack(file, f"{length}{SCALARS[inner]}")) if inner in SCALARS else skip_unknown(inner)


def skip_unknown(kind: int) -> object:
    """Raise, because a value of unknown width cannot be skipped."""
    raise ValueError(f"array of type {kind}")


def read_tensor(file: BinaryIO) -> Tensor:
    """Read one tensor's entry; its bytes follow from its type's blocks."""
    name = read_string(file)
    (rank,) = unpack(file, "I")
    if rank > 8:
        raise ValueError(f"tensor {name[:60]} with {rank} dimensions")
    shape = unpack(file, f"{rank}Q") if rank else ()
    kind, _offset = unpack(file, "IQ")
    label, block, width = TYPES.get(kind, (f"type {kind}", 1, 2))
    return Tensor(name, label, tuple(reversed(shape)), ceil_divide(prod(shape), block) * width)


def make_config(metadata: Mapping[str, object]) -> dict[str, object]:
    """Return the metadata under the names that config.json uses."""
    kind = cfg.get_text(metadata, "general.architecture")
    name = MODEL_TYPES.get(kind, kind)
    result: dict[str, object] = {"model_type": name, "quantization_config": {"quant_method": "gguf"}}
    for key, target in KEYS.items():
        value = metadata.get(f"{kind}.{key}")
        number = max(value, default=None) if isinstance(value, list) else value
        if isinstance(number, int):
            result[target] = number
    tokens = metadata.get("tokenizer.ggml.tokens")
    if isinstance(tokens, range) and "vocab_size" not in result:
        result["vocab_size"] = len(tokens)
    return fix_latent(result)


def fix_latent(data: dict[str, object]) -> dict[str, object]:
    """Return the mapping with the widths of latent attention as config.json names them.

    Without a latent rank the rotary width belongs to ordinary heads and is left out.
    """
    rope = cfg.get_int(data, "qk_rope_head_dim")
    whole = cfg.get_int(data, "qk_head_dim", "head_dim")
    if "kv_lora_rank" not in data or rope is None or whole is None:
        return {name: value for name, value in data.items() if not name.startswith("qk_")}
    return {**data, "qk_nope_head_dim": max(1, whole - rope), "n_routed_experts": data.get("num_experts", 0)}

"""Machines, configs and small checkpoints that the tests of `doctor.memory` share."""

import json
import struct
from pathlib import Path

from doctor.memory import config as cfg
from doctor.memory.build import build_model, choose_family
from doctor.memory.gpus import Machine, find_gpu
from doctor.memory.parallel import ONE_RANK, resolve_ranks
from doctor.memory.plan import plan_model
from doctor.memory.quant import read_quant
from doctor.memory.units import GIB
from doctor.memory.versions import parse_version
from doctor.memory.weights import get_whole_stage, list_params, sum_parts

FIXTURES = Path(__file__).parents[2] / "fixtures" / "memory"

# The recording machine: CUDA's own total stands in its out-of-memory message, MemAvailable in its samples.
H200 = Machine(
    find_gpu("H200")._replace(usable=int(139.80 * GIB)), 1, ram=134_925_000_000, ram_available=134_460_000_000
)
RECORDED = "0.5.15.post1"
LLAMA = {
    "architectures": ["LlamaForCausalLM"],
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 128,
    "max_position_embeddings": 1024,
    "torch_dtype": "bfloat16",
    "tie_word_embeddings": False,
}


def plan_fixture(name, machine=H200, version=RECORDED, **arguments):
    return plan_model(FIXTURES / name, arguments, machine, version)


def get_row(rows, name):
    return next((row.size for row in rows if row.name == name), 0)


def build(data, version="0.5.23", **arguments):
    """Return the model one rank of a launch with these arguments holds."""
    config = cfg.make_config(data)
    quant = read_quant(config, {}, str(arguments.get("quantization", "")), str(arguments.get("dtype", "")))
    ranks = resolve_ranks(arguments, version) if arguments else ONE_RANK
    return build_model(config, choose_family(config), ranks, quant, (arguments, parse_version(version)))


def sum_model(model):
    """Return parameter bytes by part, without what SGLang derives from them."""
    parts = sum_parts(list_params(model, get_whole_stage(model)))
    parts.pop("buffer", None)
    return parts


def pack_header(tensors):
    """Return the bytes of a safetensors file's header for (name, dtype, shape, size) tensors."""
    header, offset = {"__metadata__": {"format": "pt"}}, 0
    for name, dtype, shape, size in tensors:
        header[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [offset, offset + size]}
        offset += size
    raw = json.dumps(header).encode()
    return struct.pack("<Q", len(raw)) + raw, offset


def write_safetensors(path, tensors, cut=0):
    """Write a sparse file with a true header; `cut` bytes are missing at its end."""
    raw, size = pack_header(tensors)
    with path.open("wb") as file:
        file.write(raw)
        file.truncate(len(raw) + size - cut)


def list_llama_tensors(data=LLAMA, dtype="BF16", width=2):
    """Return the tensors a Llama checkpoint with this config holds."""
    hidden, wide, vocab = data["hidden_size"], data["intermediate_size"], data["vocab_size"]
    dim = hidden // data["num_attention_heads"]
    key = data["num_key_value_heads"] * dim
    found = [("model.embed_tokens.weight", (vocab, hidden)), ("lm_head.weight", (vocab, hidden))]
    found.append(("model.norm.weight", (hidden,)))
    for layer in range(data["num_hidden_layers"]):
        shapes = {
            "self_attn.q_proj": (hidden, hidden),
            "self_attn.k_proj": (key, hidden),
            "self_attn.v_proj": (key, hidden),
            "self_attn.o_proj": (hidden, hidden),
            "mlp.gate_proj": (wide, hidden),
            "mlp.up_proj": (wide, hidden),
            "mlp.down_proj": (hidden, wide),
            "input_layernorm": (hidden,),
            "post_attention_layernorm": (hidden,),
        }
        found += [(f"model.layers.{layer}.{name}.weight", shape) for name, shape in shapes.items()]
    sizes = [(name, shape, shape[0] * (shape[1] if len(shape) > 1 else 1) * width) for name, shape in found]
    return [(name, dtype, shape, size) for name, shape, size in sizes]


def write_model(folder, data=LLAMA, tensors=None):
    """Write config.json and one weight file into `folder`."""
    (folder / "config.json").write_text(json.dumps(data))
    write_safetensors(folder / "model.safetensors", list_llama_tensors() if tensors is None else tensors)
    return folder

"""Start real SGLang servers with dummy weights and compare their memory lines with `doctor plan`.

Usage, on a machine with an NVIDIA GPU and SGLang: python tools/measure_memory.py OUT [SHAPE...]
Writes OUT/<shape>.log and OUT/memory.md, one row per shape: weights, tokens, K + V, pinned host memory.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

import psutil

from doctor.commands.machine import look_at_machine
from doctor.memory.plan import Plan, plan_model

READY_SECONDS = 150
BASE = [
    "--attention-backend",
    "triton",
    "--sampling-backend",
    "pytorch",
    "--grammar-backend",
    "none",
    "--load-format",
    "dummy",
]
QUIET = ["--disable-cuda-graph"]


class Shape(NamedTuple):
    """A model's config and the flags to serve it with."""

    config: Mapping[str, Any]
    flags: tuple[str, ...]


# What all shapes have: values that transformers wants and that change no size, and one small vocabulary.
COMMON = {
    "vocab_size": 32000,
    "rms_norm_eps": 1e-6,
    "hidden_act": "silu",
    "tie_word_embeddings": False,
    "dtype": "bfloat16",
    "bos_token_id": 0,
    "eos_token_id": 1,
    "attention_bias": False,
}


def llama(hidden: int, inner: int, layers: int, heads: int, groups: int) -> dict[str, Any]:
    """A dense model."""
    return {
        **COMMON,
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_size": hidden,
        "intermediate_size": inner,
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "num_key_value_heads": groups,
        "head_dim": max(64, hidden // heads),
        "max_position_embeddings": 8192,
        "rope_theta": 10000.0,
        "mlp_bias": False,
    }


def moe(layers: int) -> dict[str, Any]:
    """A mixture of experts with grouped-query attention."""
    return {
        **COMMON,
        "architectures": ["Qwen3MoeForCausalLM"],
        "model_type": "qwen3_moe",
        "hidden_size": 2048,
        "intermediate_size": 6144,
        "moe_intermediate_size": 768,
        "num_experts": 128,
        "num_experts_per_tok": 8,
        "norm_topk_prob": True,
        "decoder_sparse_step": 1,
        "num_hidden_layers": layers,
        "num_attention_heads": 32,
        "num_key_value_heads": 4,
        "head_dim": 128,
        "max_position_embeddings": 40960,
        "rope_theta": 1000000.0,
        "mlp_only_layers": [],
        "router_aux_loss_coef": 0.001,
    }


def latent(layers: int) -> dict[str, Any]:
    """A mixture of experts with latent attention (MLA)."""
    return {
        **COMMON,
        "architectures": ["DeepseekV2ForCausalLM"],
        "model_type": "deepseek_v2",
        "hidden_size": 2048,
        "intermediate_size": 10944,
        "moe_intermediate_size": 1408,
        "n_routed_experts": 64,
        "n_shared_experts": 2,
        "num_experts_per_tok": 6,
        "first_k_dense_replace": 1,
        "moe_layer_freq": 1,
        "norm_topk_prob": False,
        "scoring_func": "softmax",
        "topk_method": "greedy",
        "n_group": 1,
        "topk_group": 1,
        "routed_scaling_factor": 1.0,
        "kv_lora_rank": 512,
        "q_lora_rank": None,
        "qk_nope_head_dim": 128,
        "qk_rope_head_dim": 64,
        "v_head_dim": 128,
        "num_attention_heads": 16,
        "num_key_value_heads": 16,
        "num_hidden_layers": layers,
        "max_position_embeddings": 4096,
        "rope_theta": 10000,
        "pretraining_tp": 1,
    }


SHAPES: dict[str, Shape] = {
    "dense8b": Shape(llama(4096, 14336, 32, 32, 8), ("--mem-fraction-static", "0.5")),
    "dense8b_default": Shape(llama(4096, 14336, 32, 32, 8), ()),
    "dense8b_fp8": Shape(
        llama(4096, 14336, 32, 32, 8), ("--mem-fraction-static", "0.4", "--quantization", "fp8", *QUIET)
    ),
    "dense8b_kv_fp8": Shape(
        llama(4096, 14336, 32, 32, 8), ("--mem-fraction-static", "0.4", "--kv-cache-dtype", "fp8_e4m3", *QUIET)
    ),
    "dense3b_mha": Shape(llama(2560, 6912, 32, 32, 32), ("--mem-fraction-static", "0.4", *QUIET)),
    "dense30b": Shape(llama(6656, 17920, 60, 52, 4), ("--mem-fraction-static", "0.7", *QUIET)),
    "moe16": Shape(moe(16), ("--mem-fraction-static", "0.4", *QUIET)),
    "moe16_offload": Shape(moe(16), ("--mem-fraction-static", "0.3", "--cpu-offload-gb", "10", *QUIET)),
    "moe48": Shape(moe(48), ("--mem-fraction-static", "0.7", *QUIET)),
    "latent12": Shape(latent(12), ("--mem-fraction-static", "0.4", *QUIET)),
    "latent12_offload": Shape(
        latent(12),
        (
            "--mem-fraction-static",
            "0.3",
            "--offload-group-size",
            "4",
            "--offload-num-in-group",
            "3",
            "--disable-radix-cache",
            "--disable-shared-experts-fusion",
            *QUIET,
        ),
    ),
}


class Measured(NamedTuple):
    """What one server's log and the host said; None where it did not come that far. GiB and tokens."""

    weights: float | None
    tokens: int | None
    kv: float | None
    pinned: float | None
    ready: bool


def main(arguments: list[str]) -> int:
    """Measure the named shapes, or all."""
    out = Path(arguments[0])
    out.mkdir(parents=True, exist_ok=True)
    rows = ["| shape | flags | | weights GiB | tokens | K + V GiB | pinned GiB |", "|--|--|--|--|--|--|--|"]
    for name in arguments[1:] or list(SHAPES):
        shape = SHAPES[name]
        model = write_model(out / "models" / name, shape.config)
        measured = serve(out / f"{name}.log", model, shape)
        plan = plan_model(model, read_flags(shape.flags), look_at_machine(), "0.5.15.post1")
        rows += [describe_measured(name, shape, measured), describe_plan(plan)]
        print("\n".join(rows[-2:]), flush=True)
        (out / "memory.md").write_text("\n".join(rows) + "\n")
    return 0


def write_model(folder: Path, config: Mapping[str, Any]) -> Path:
    """Write a config and a tokenizer trained on two sentences; dummy weights need no more."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config))
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=1000, special_tokens=["<s>", "</s>", "<pad>"], initial_alphabet=pre_tokenizers.ByteLevel.alphabet()
    )
    tokenizer.train_from_iterator(["a server was started and it answered " * 20], trainer)
    tokenizer.save(str(folder / "tokenizer.json"))
    settings = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": "<s>",
        "eos_token": "</s>",
        "pad_token": "<pad>",
    }
    settings["chat_template"] = "{% for m in messages %}{{ m['role'] }}: {{ m['content'] }}\n{% endfor %}assistant:"
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    return folder


def read_flags(flags: tuple[str, ...]) -> dict[str, object]:
    """Turn the flags into server arguments."""
    from doctor.commands.plan import read_launch
    from doctor.launch.flags import load_table

    return read_launch(["--model-path", "x", *BASE, *flags], load_table("0.5.15.post1"))[0]


def serve(log: Path, model: Path, shape: Shape) -> Measured:
    """Run a server until it is ready (or its time is up) and read its figures."""
    command = [
        sys.executable,
        "-m",
        "sglang.launch_server",
        "--model-path",
        str(model),
        "--host",
        "127.0.0.1",
        "--port",
        "31500",
    ]
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", "PYTHONUNBUFFERED": "1"}
    before, least = psutil.virtual_memory().available, psutil.virtual_memory().available
    with log.open("wb") as stream:
        server = subprocess.Popen(
            [*command, *BASE, *shape.flags],
            stdout=stream,
            stderr=subprocess.STDOUT,
            env=environment,
            start_new_session=True,
        )
        deadline, ready, offloading = time.monotonic() + READY_SECONDS, False, 0
        while time.monotonic() < deadline and server.poll() is None and not ready:
            time.sleep(0.5)
            least = min(least, psutil.virtual_memory().available)
            text = log.read_text(errors="replace")
            ready = "fired up" in text
            offloading = offloading or (text.count("module_index=") if "Load weight end" in text else 0)
        stop(server)
    text = log.read_text(errors="replace")
    # 4.2 GB: what the processes of a server without offloading take (measured with moe16)
    pinned = (before - least) / 2**30 - 4.2 if any("offload" in flag for flag in shape.flags) else None
    return Measured(find(text, r"mem usage=([\d.]+) GB\.?\s"), find_tokens(text), find_kv(text), pinned, ready)


def stop(server: subprocess.Popen[bytes]) -> None:
    """End the server's own session."""
    if server.poll() is None:
        os.killpg(server.pid, signal.SIGKILL)
    server.wait()
    time.sleep(2)


def find(text: str, pattern: str) -> float | None:
    """The first figure that follows `Load weight end`."""
    line = next((line for line in text.splitlines() if "Load weight end" in line), "")
    found = re.search(pattern, line + " ")
    return float(found[1]) if found else None


def find_tokens(text: str) -> int | None:
    """Tokens of the KV pool."""
    found = re.search(r"max_total_num_tokens=(\d+)", text)
    return int(found[1]) if found else None


def find_kv(text: str) -> float | None:
    """K and V together."""
    found = re.search(r"#tokens: \d+, (?:K size: ([\d.]+) GB, V size: ([\d.]+) GB|KV size: ([\d.]+) GB)", text)
    return sum(float(size) for size in found.groups() if size) if found else None


def describe_measured(name: str, shape: Shape, measured: Measured) -> str:
    """One row of what was measured."""
    cells = [f"{value:.2f}" if value is not None else "-" for value in (measured.weights, measured.kv, measured.pinned)]
    tokens = f"{measured.tokens:,}" if measured.tokens else "-"
    flags = " ".join(flag for flag in shape.flags if flag not in QUIET)
    state = "measured" if measured.ready else "measured, not ready"
    return f"| {name} | `{flags}` | {state} | {cells[0]} | {tokens} | {cells[1]} | {cells[2]} |"


def describe_plan(plan: Plan) -> str:
    """One row of what was computed."""
    sizes = {row.name: row.size for row in (*plan.gpu_rows, *plan.host_rows)}
    weights, kv, pinned = (
        f"{sizes[name] / 2**30:.2f}" if name in sizes else "-" for name in ("weights", "KV cache", "pinned offload")
    )
    return f"| | | computed | {weights} | {plan.tokens:,} | {kv} | {pinned} |"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

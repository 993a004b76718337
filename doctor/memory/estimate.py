"""What a launch needs on the GPU beside weights and KV cache: context, graphs, activations."""

from __future__ import annotations

from collections.abc import Mapping

from doctor.memory import config as cfg
from doctor.memory.fraction import Defaults
from doctor.memory.parallel import Ranks, share
from doctor.memory.shapes import Model
from doctor.memory.units import MIB

# Measured on H200 with 0.5.15.post1 and torch 2.11: of 139.80 GiB, 139.21 are free when SGLang takes its
# baseline with one rank and 138.28 with two (NCCL and all-reduce buffers); one more 70 MiB of kernels is
# loaded before the weights.
CONTEXT_BYTES = 610 * MIB
NCCL_BYTES = 920 * MIB
KERNEL_BYTES = 70 * MIB


def measure_context(ranks: Ranks) -> int:
    """Return the bytes gone before SGLang takes its baseline: CUDA context and, with peers, NCCL."""
    return CONTEXT_BYTES + (NCCL_BYTES if ranks.tp * ranks.pp > 1 else 0)


def measure_graph_bytes(defaults: Defaults) -> int:
    """Return SGLang's own estimate for captured graphs: 2 MiB per decode slot, 8 MiB per prefill size.

    An upper bound for small models: the recordings show 0.06 and 0.10 GB where it says 0.5 and 0.45.
    """
    graphs = defaults.graphs
    decode = 2 * graphs.decode_max if graphs.decode else 0
    return (decode + 8 * len(graphs.prefill)) * MIB


def measure_activations(
    config: cfg.Config, model: Model, ranks: Ranks, arguments: Mapping[str, object], defaults: Defaults
) -> int:
    """Return the peak of one prefill chunk's activations, or of the largest decode batch's logits.

    Per token in 16 bits: residual and hidden state, and the widest of the attention projections, the dense
    MLP (both halves and their product) and, per chosen expert, the same plus its output (fused_moe).
    """
    tokens = defaults.chunk or cfg.get_int(arguments, "max_prefill_tokens") or 16384
    hidden = cfg.find(config, "hidden_size", "n_embd", default=4096)
    widest = max(measure_attention(config, ranks), measure_mlp(config, ranks), measure_experts(config, ranks, hidden))
    prefill = min(tokens, 1 << 24) * (2 * hidden + widest) * 2
    rows = max(defaults.graphs.decode_max, 1)
    # fp32 logits of the whole vocabulary and one copy for sampling.
    logits = rows * cfg.find(config, "vocab_size", default=32000) * 8
    return max(prefill, logits) if model.layers else 0


def measure_attention(config: cfg.Config, ranks: Ranks) -> int:
    """Return the elements per token of query, key, value and attention output on one rank."""
    heads = share(cfg.find(config, *cfg.HEAD_KEYS, default=1), ranks.attention)
    width = cfg.find(config, "v_head_dim") or cfg.find(config, "head_dim", default=128)
    return heads * (3 * width + cfg.find(config, "qk_rope_head_dim"))


def measure_mlp(config: cfg.Config, ranks: Ranks) -> int:
    """Return the elements per token of a gated MLP on one rank."""
    return 3 * share(cfg.find(config, "intermediate_size", default=1), ranks.dense)


def measure_experts(config: cfg.Config, ranks: Ranks, hidden: int) -> int:
    """Return the elements per token of the chosen experts on one rank."""
    chosen = cfg.find(config, "num_experts_per_tok", "moe_k", "moe_topk")
    width = cfg.find(config, "moe_intermediate_size") or cfg.find(config, "intermediate_size")
    return chosen * (3 * share(width, ranks.moe) + hidden) if chosen and width else 0

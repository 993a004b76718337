"""What each rank holds: tensor, pipeline, data and expert parallelism, and attention data parallelism."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import accumulate
from typing import NamedTuple

from doctor.memory import config as cfg
from doctor.memory.versions import parse_version

MAX_RANKS = 4096  # keeps the search for a fitting split finite whatever the command line says


class Ranks(NamedTuple):
    """The sizes of the groups that share a model.

    `attention` ranks share one copy of attention and of the KV cache; `attention_dp` such copies exist
    inside one tensor-parallel group. Experts are divided among `experts` ranks and each expert's matrices
    among `moe` ranks (experts x moe = tp). `dense` ranks share a dense MLP, `embedding` and `head` ranks the
    vocabulary. `replicas` are whole further servers' worth of ranks (--dp-size without attention DP).
    """

    tp: int
    pp: int
    replicas: int
    attention: int
    attention_dp: int
    experts: int
    moe: int
    dense: int
    shared: int
    embedding: int
    head: int
    nodes: int


ONE_RANK = Ranks(1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1)


def resolve_ranks(arguments: Mapping[str, object], version: str) -> Ranks:
    """Return the group sizes for server arguments by their names in server_args (0.4.6 to 0.5.23).

    Attention DP is --enable-dp-attention with --dp-size, or --attn-dp-size from 0.5.22 on. The expert
    parallel size equals tp under DeepEP and the old --enable-ep-moe.
    """
    tp = read_size(arguments, "tp_size", "tensor_parallel_size")
    pp = read_size(arguments, "pp_size", "pipeline_parallel_size")
    dp = read_size(arguments, "dp_size", "data_parallel_size")
    attention_dp = choose_attention_dp(arguments, dp, version)
    experts = choose_experts(arguments, tp)
    attention = max(1, tp // attention_dp // read_size(arguments, "attn_cp_size"))
    uses_attention_dp = attention_dp > 1
    all_to_all = cfg.get_text(arguments, "moe_a2a_backend") not in {"", "none"}
    return Ranks(
        tp=tp,
        pp=pp,
        replicas=1 if cfg.get_flag(arguments, "enable_dp_attention") else dp,
        attention=attention,
        attention_dp=attention_dp,
        experts=experts,
        moe=max(1, tp // experts),
        dense=min(tp, read_size(arguments, "moe_dense_tp_size", default=tp)),
        # With an all-to-all backend each rank computes the shared experts of its own tokens.
        shared=1 if all_to_all or cfg.get_flag(arguments, "enable_deepep_moe") else tp,
        embedding=attention if uses_attention_dp else tp,
        head=attention if uses_attention_dp and cfg.get_flag(arguments, "enable_dp_lm_head") else tp,
        nodes=read_size(arguments, "nnodes"),
    )


def read_size(arguments: Mapping[str, object], *names: str, default: int = 1) -> int:
    """Return a group size, bounded so that loops over ranks end."""
    return min(cfg.get_int(arguments, *names) or default, MAX_RANKS)


def choose_attention_dp(arguments: Mapping[str, object], dp: int, version: str) -> int:
    """Return the number of attention replicas inside one tensor-parallel group."""
    given = read_size(arguments, "attn_dp_size")
    if given > 1 and parse_version(version) >= (0, 5, 22):
        return given
    return dp if cfg.get_flag(arguments, "enable_dp_attention") else 1


def choose_experts(arguments: Mapping[str, object], tp: int) -> int:
    """Return the expert parallel size; all-to-all backends and --enable-ep-moe set it to tp."""
    forced = cfg.get_flag(arguments, "enable_ep_moe") or cfg.get_flag(arguments, "enable_deepep_moe")
    backend = cfg.get_text(arguments, "moe_a2a_backend")
    if forced or backend in {"deepep", "mooncake", "ascend_fuseep", "megamoe", "pplx"}:
        return tp
    return min(read_size(arguments, "ep_size", "expert_parallel_size"), tp)


def count_gpus(ranks: Ranks) -> int:
    """Return how many GPUs the whole launch uses, over all nodes."""
    return ranks.tp * ranks.pp * ranks.replicas


def count_local(ranks: Ranks) -> int:
    """Return how many ranks run on one host."""
    return max(1, count_gpus(ranks) // ranks.nodes)


def split_stages(layers: int, pp: int) -> tuple[range, ...]:
    """Return each pipeline stage's layers; the last stages get the extra ones (get_pp_indices, 0.5.23)."""
    base, extra = divmod(layers, pp)
    sizes = [base + (1 if stage >= pp - extra else 0) for stage in range(pp)]
    return tuple(range(end - size, end) for end, size in zip(accumulate(sizes), sizes, strict=True))


def share(number: int, ranks: int) -> int:
    """Return one rank's share of `number` columns or experts, at least one, rounded up when uneven."""
    return max(1, -(-number // ranks))


def find_conflicts(config: cfg.Config, ranks: Ranks) -> list[str]:
    """Return what makes SGLang refuse this division (0.5.23 parallel_hook.py, moe_ep_setup.py)."""
    heads = cfg.find(config, *cfg.HEAD_KEYS)
    expert_width = cfg.find(config, "moe_intermediate_size")
    notes = []
    if ranks.tp % ranks.attention_dp:
        notes.append(f"tp {ranks.tp} is not divisible by the {ranks.attention_dp} attention DP groups")
    if heads and heads % ranks.attention:
        notes.append(f"{heads} attention heads cannot be divided among {ranks.attention} ranks")
    if ranks.tp % ranks.experts:
        notes.append(f"tp {ranks.tp} is not divisible by ep {ranks.experts}")
    if expert_width and expert_width % ranks.moe:
        notes.append(f"moe_intermediate_size {expert_width} is not divisible by {ranks.moe} (tp / ep)")
    return notes

"""Tell what SGLang chose by itself from what the user asked for, in a dump that shows only results.

The dump has the values after resolution. Each entry says which values a field gets when nobody sets it, from
`srt/server_args.py` of 0.4.6.post5 to 0.5.19 and `srt/arg_groups/*_hook.py` of 0.5.12 to 0.5.23, confirmed by
the recordings in fixtures. In doubt a value counts as the user's: printing it again changes nothing.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

Args = Mapping[str, Any]
Check = Callable[[Any, Args], bool]

# Pairs of prefill chunk and largest captured batch, by GPU memory and tp (0.5.4 on; 0.5.15 raised the second
# tier to 4096/48). 16384/160 and the rest of 0.4.6 to 0.5.2 are covered by the single values.
TIERS = frozenset(
    {(2048, 8), (2048, 24), (2048, 80), (4096, 48), (4096, 32), (4096, 160), (8192, 256), (8192, 512)}
    | {(16384, 512), (2048, None), (8192, None), (16384, None), (4096, None), (2048, 160), (8192, 160)}
)
LARGE_GPU_CHUNKS = frozenset({8192, 16384})
LARGE_GPU_BATCHES = frozenset({256, 512})
# What each device gets without a flag. On CUDA triton is not among them: FlashInfer or FA3 comes first.
ATTENTION = MappingProxyType(
    {
        "cuda": {
            "fa3",
            "fa4",
            "flashinfer",
            "trtllm_mha",
            "trtllm_mla",
            "nsa",
            "dsa",
            "compressed",
            "dsv4",
            "aiter",
        },
        "cpu": {"torch_native", "intel_amx"},
        "xpu": {"intel_xpu", "triton"},
        "npu": {"ascend"},
        "hpu": {"torch_native"},
    }
)
# Page sizes that an attention backend brings with it.
PAGES = MappingProxyType(
    {
        "flashmla": {64},
        "cutlass_mla": {128},
        "trtllm_mla": {32, 64},
        "trtllm_mha": {16, 32, 64},
        "cutedsl_mla": {32, 64},
        "fa4": {128},
        "nsa": {64},
        "dsa": {64},
        "compressed": {256},
        "dsv4": {256},
        "ascend": {128},
        "intel_xpu": {64, 128},
    }
)
# DeepSeek-V4's own attention backend; its hook sets page size, KV dtype, SWA ratio and running requests too.
DSV4 = frozenset({"compressed", "dsv4"})


def is_automatic(name: str, value: Any, args: Args) -> bool:
    """Tell whether the field could have this value without a flag; `args` is the whole dump."""
    check = CHECKS.get(name)
    try:
        return check is not None and check(value, args)
    except TypeError:  # a damaged dump may hold a list where a number belongs
        return False


def is_one_of(*values: Any) -> Check:
    """Return a check for constants that an unset field resolves to."""
    return lambda value, _: value in values


def is_same_as(field: str) -> Check:
    """Return a check for fields that take over another field."""
    return lambda value, args: value == args.get(field)


def is_always(_value: Any, _args: Args) -> bool:
    """Accept every value: the field is computed, or random, in every launch."""
    return True


def is_gpu_chunk(value: Any, args: Args) -> bool:
    """Check the prefill chunk: it and the largest captured batch come from the size of the GPU together.

    DP attention divides it. Where only the batch does not fit the pair, the batch is the user's.
    """
    sizes = {args.get("dp_size") or 1, args.get("attn_dp_size") or 1}
    max_bs = find_max_bs(args)
    return any((value * size, max_bs) in TIERS for size in sizes) or (
        value in LARGE_GPU_CHUNKS and max_bs not in LARGE_GPU_BATCHES
    )


def is_gpu_batch(value: Any, args: Args) -> bool:
    """Check the largest captured batch: as in `is_gpu_chunk`, or that of a GPU of 60 GiB and more."""
    return value in LARGE_GPU_BATCHES or (args.get("chunked_prefill_size"), value) in TIERS


def find_max_bs(args: Args) -> int | None:
    """Return the largest captured decode batch, from the field that the version has for it."""
    if "cuda_graph_max_bs" in args:
        return args["cuda_graph_max_bs"] if isinstance(args["cuda_graph_max_bs"], int) else None
    config = args.get("cuda_graph_config")
    if isinstance(config, Mapping):
        decode = config.get("decode")
        max_bs = decode.get("max_bs") if isinstance(decode, Mapping) else None
        return max_bs if isinstance(max_bs, int) else None
    found = re.search(r"max_bs=(\d{1,6})", str(config)[:1000])
    return int(found[1]) if found else None


def is_generated_list(value: Any, args: Args) -> bool:
    """Check a list of graph sizes: generated ones are dense and end at the largest captured batch."""
    if not isinstance(value, list | tuple) or not value:
        return False
    return len(value) > 6 and value[0] in {1, 2, 4} and list(value) == sorted(value) and bool(args)


def is_computed_fraction(value: Any, args: Args) -> bool:
    """Check mem_fraction_static: computed ones have three decimals, people type two."""
    if not isinstance(value, int | float):
        return False
    is_fallback = value == 0.95 and args.get("device") not in {"cuda", None}
    return is_fallback or round(float(value), 2) != value


def is_default_attention(value: Any, args: Args) -> bool:
    """Check the attention backend against what its device gets, or what the phases were given."""
    both = {args.get("prefill_attention_backend"), args.get("decode_attention_backend")}
    return value in ATTENTION.get(str(args.get("device")), ()) or both == {value}


def is_default_sampling(value: Any, args: Args) -> bool:
    """Check the sampling backend: FlashInfer on CUDA, PyTorch elsewhere."""
    return value in ({"flashinfer"} if args.get("device") == "cuda" else {"pytorch", "ascend"})


def is_backend_page(value: Any, args: Args) -> bool:
    """Check the page size: 1 without a reason for another one."""
    backends = {args.get(f"{phase}attention_backend") for phase in ("", "prefill_", "decode_")}
    return value == 1 or any(value in PAGES.get(str(backend), ()) for backend in backends)


def is_model_kv_dtype(value: Any, args: Args) -> bool:
    """Check the KV dtype: DeepSeek's sparse attention chooses its own."""
    return args.get("attention_backend") in {*DSV4, "nsa", "dsa"} and value in {"fp8_e4m3", "bfloat16"}


def is_model_running(value: Any, args: Args) -> bool:
    """Check max_running_requests: 48 with speculative decoding, 256 with DeepSeek-V4."""
    is_speculative = args.get("speculative_algorithm") is not None
    return (is_speculative and value == 48) or (args.get("attention_backend") in DSV4 and value == 256)


def is_swa_ratio(value: Any, args: Args) -> bool:
    """Check the SWA ratio: 0.8, 1.0 for some models, 0.1 for DeepSeek-V4."""
    return value in {0.8, 1.0} or (args.get("attention_backend") in DSV4 and value == 0.1)


def is_dp_conservativeness(value: Any, args: Args) -> bool:
    """Check schedule_conservativeness: DP attention multiplies it by 0.3."""
    return bool(args.get("enable_dp_attention") or (args.get("attn_dp_size") or 1) > 1) and value == 0.3


def is_expert_size(value: Any, args: Args) -> bool:
    """Check ep_size: the all-to-all backends set it to tp_size."""
    return args.get("moe_a2a_backend") not in {None, "none"} and value == args.get("tp_size")


def is_overlap_off(_value: Any, args: Args) -> bool:
    """Check disable_overlap_schedule: pipeline parallelism and speculative decoding turn it on."""
    return (args.get("pp_size") or 1) > 1 or args.get("speculative_algorithm") is not None


def is_graph_off(_value: Any, args: Args) -> bool:
    """Check disable_cuda_graph: off without a GPU, and on prefill servers."""
    return args.get("device") not in {"cuda", None} or args.get("disaggregation_mode") == "prefill"


def is_chunk_cache(_value: Any, args: Args) -> bool:
    """Check disable_radix_cache: decode servers work without it."""
    return args.get("disaggregation_mode") == "decode"


def is_hicache_off(_value: Any, args: Args) -> bool:
    """Check options of the hierarchical cache: without it, whatever they are is a by-product."""
    return not args.get("enable_hierarchical_cache")


def is_chunk(value: Any, args: Args) -> bool:
    """Check the size of prefill graphs: the prefill chunk, 2048 with MLA."""
    return value in {2048, args.get("chunked_prefill_size")}


def is_lora_loaded(_value: Any, args: Args) -> bool:
    """Check enable_lora: giving adapters turns it on."""
    return bool(args.get("lora_paths"))


CHECKS: Mapping[str, Check] = MappingProxyType(
    {
        "random_seed": is_always,
        "nccl_port": is_always,
        "cuda_graph_config": is_always,
        "watermark_config": is_one_of("<redacted>"),
        "tokenizer_path": is_same_as("model_path"),
        "served_model_name": is_same_as("model_path"),
        "device": is_one_of("cuda"),
        "mem_fraction_static": is_computed_fraction,
        "chunked_prefill_size": is_gpu_chunk,
        "cuda_graph_max_bs": is_gpu_batch,
        "cuda_graph_bs": is_generated_list,
        "piecewise_cuda_graph_tokens": is_generated_list,
        "piecewise_cuda_graph_max_tokens": is_chunk,
        "attention_backend": is_default_attention,
        "sampling_backend": is_default_sampling,
        "grammar_backend": is_one_of("xgrammar"),
        "page_size": is_backend_page,
        "kv_cache_dtype": is_model_kv_dtype,
        "swa_full_tokens_ratio": is_swa_ratio,
        "max_running_requests": is_model_running,
        "load_balance_method": is_one_of("round_robin", "follow_bootstrap_room"),
        "schedule_conservativeness": is_dp_conservativeness,
        "ep_size": is_expert_size,
        "disable_overlap_schedule": is_overlap_off,
        "disable_cuda_graph": is_graph_off,
        "disable_radix_cache": is_chunk_cache,
        "expert_distribution_recorder_buffer_size": is_one_of(1000),
        "speculative_moe_runner_backend": is_same_as("moe_runner_backend"),
        "speculative_moe_a2a_backend": is_same_as("moe_a2a_backend"),
        "speculative_draft_model_quantization": is_same_as("quantization"),
        "speculative_draft_model_revision": is_one_of("main"),
        "enable_lora": is_lora_loaded,
        "mamba_scheduler_strategy": is_one_of("no_buffer"),
        "hicache_storage_prefetch_policy": is_hicache_off,
        "hicache_mem_layout": is_hicache_off,
        "hicache_io_backend": is_hicache_off,
        "hicache_ratio": is_one_of(2.0),
        "disaggregation_decode_tp": is_same_as("tp_size"),
        "disaggregation_decode_dp": is_same_as("dp_size"),
        "disaggregation_prefill_pp": is_same_as("pp_size"),
        "encoder_transfer_backend": is_one_of("zmq_to_scheduler"),
        "dcp_comm_backend": is_one_of("ag_rs"),
        "boundary_reduction": is_one_of("rs+rsv", "ar"),
        "mm_feature_transport": is_one_of("cpu"),
        "prefill_decode_interval": is_one_of(0),
        "triton_attention_num_kv_splits": is_one_of(16),
    }
)

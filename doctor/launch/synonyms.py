"""Names that people type for SGLang's flags: other servers' flags, and spellings close to the real ones."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from types import MappingProxyType

# Flags of vLLM (0.10), TGI (3) and llama.cpp's server, and the SGLang field that does the same.
FOREIGN: Mapping[str, str] = MappingProxyType(
    {
        "--max-model-len": "context_length",
        "--max-seq-len": "context_length",
        "--max-context-len": "context_length",
        "--max-input-length": "context_length",
        "--ctx-size": "context_length",
        "--gpu-memory-utilization": "mem_fraction_static",
        "--cuda-memory-fraction": "mem_fraction_static",
        "--max-num-seqs": "max_running_requests",
        "--max-concurrent-requests": "max_running_requests",
        "--max-num-batched-tokens": "chunked_prefill_size",
        "--max-batch-prefill-tokens": "max_prefill_tokens",
        "--enforce-eager": "disable_cuda_graph",
        "--disable-prefix-caching": "disable_radix_cache",
        "--no-enable-prefix-caching": "disable_radix_cache",
        "--block-size": "page_size",
        "--enable-expert-parallel": "ep_size",
        "--tensor-parallel": "tp_size",
        "--num-shard": "tp_size",
        "--speculative-model": "speculative_draft_model_path",
        "--num-speculative-tokens": "speculative_num_draft_tokens",
        "--limit-mm-per-prompt": "limit_mm_data_per_request",
        "--hf-overrides": "json_model_override_args",
        "--model-id": "model_path",
        "--model-name": "served_model_name",
        "--alias": "served_model_name",
        "--tokenizer": "tokenizer_path",
        "--seed": "random_seed",
        "--lora-modules": "lora_paths",
        "--quantize": "quantization",
        "--uvicorn-log-level": "log_level_http",
        "--root-path": "fastapi_root_path",
        "--guided-decoding-backend": "grammar_backend",
        "--enable-auto-tool-choice": "tool_call_parser",
        "--kv-transfer-config": "disaggregation_mode",
    }
)
MAX_NAMES = 3


def find_similar(name: str, options: Collection[str]) -> tuple[str, ...]:
    """Return up to three options spelt like `name`, best first, deterministic for equal scores.

    The cutoff of 0.75 (difflib's ratio) admits one typing error in four characters.
    """
    import difflib

    dashed = name.replace("_", "-")
    if dashed in options:
        return (dashed,)
    return tuple(difflib.get_close_matches(dashed, sorted(options), n=MAX_NAMES, cutoff=0.75))

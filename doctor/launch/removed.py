"""Flags that SGLang took away, the last version that had each, and what replaces it.

Origin: the tables of the 17 versions in `flags/` (which version lacks which flag), the deprecation notices in
them, and for the rest the source of the version that removed the flag.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from doctor.launch.versions import sort_key


class Removed(NamedTuple):
    """A flag that is gone.

    `replacement` holds flags to use instead: `--name` takes over the value, `--name=value` has its own;
    empty when the flag can simply be dropped. `why` says so in words.
    """

    name: str
    last: str
    replacement: tuple[str, ...]
    why: str


_ROWS: tuple[tuple[str, str, str, str], ...] = (
    ("--enable-flashinfer-mla", "0.4.6.post5", "--attention-backend=flashinfer", ""),
    ("--enable-flashmla", "0.4.6.post5", "--attention-backend=flashmla", ""),
    ("--n-share-experts-fusion", "0.4.6.post5", "", "shared experts are fused by default"),
    ("--pdlb-url", "0.4.10.post2", "", "servers do not register with a load balancer any more"),
    ("--debug-tensor-dump-prefill-only", "0.5.2", "", "a debugging aid that is gone"),
    ("--max-micro-batch-size", "0.5.2", "--pp-max-micro-batch-size", ""),
    ("--enable-beta-spec", "0.5.4", "", "set SGLANG_ENABLE_SPEC_V2=1 where the version reads it"),
    ("--enable-ep-moe", "0.5.4", "--ep-size", "expert parallelism is set by its size; give the tp size"),
    ("--enable-deepep-moe", "0.5.4", "--moe-a2a-backend=deepep", ""),
    ("--enable-flashinfer-cutlass-moe", "0.5.4", "--moe-runner-backend=flashinfer_cutlass", ""),
    ("--enable-flashinfer-trtllm-moe", "0.5.4", "--moe-runner-backend=flashinfer_trtllm", ""),
    ("--enable-flashinfer-mxfp4-moe", "0.5.4", "--moe-runner-backend=flashinfer_mxfp4", ""),
    ("--enable-flashinfer-cutedsl-moe", "0.5.4", "--moe-runner-backend=flashinfer_cutedsl", ""),
    ("--enable-triton-kernel-moe", "0.5.4", "--moe-runner-backend=triton_kernel", ""),
    ("--kt-amx-method", "0.5.4", "--kt-method", ""),
    ("--kt-amx-weight-path", "0.5.4", "--kt-weight-path", ""),
    ("--oltp-traces-endpoint", "0.5.4", "--otlp-traces-endpoint", "the name was misspelt"),
    ("--load-watch-interval", "0.5.6", "", "nothing replaces it"),
    ("--dllm-block-size", "0.5.6", "", "the algorithm has a file of its own, --dllm-algorithm-config"),
    (
        "--enable-flashinfer-autotune",
        "0.5.6",
        "",
        "on by default; --disable-flashinfer-autotune turns it off",
    ),
    ("--disable-hicache-numa-detect", "0.5.8", "", "nothing replaces it"),
    ("--disaggregation-decode-tp", "0.5.8", "", "the two sides negotiate their sizes"),
    ("--disaggregation-decode-dp", "0.5.8", "", "the two sides negotiate their sizes"),
    ("--disaggregation-prefill-pp", "0.5.8", "", "the two sides negotiate their sizes"),
    ("--disaggregation-decode-enable-fake-auto", "0.5.8", "", "nothing replaces it"),
    ("--mm-max-concurrent-calls", "0.5.8", "", "nothing replaces it"),
    ("--mm-per-request-timeout", "0.5.8", "", "nothing replaces it"),
    ("--speculative-ngram-min-match-window-size", "0.5.8", "", "nothing replaces it"),
    ("--speculative-ngram-max-match-window-size", "0.5.8", "", "nothing replaces it"),
    ("--speculative-ngram-branch-length", "0.5.8", "--speculative-ngram-max-trie-depth", "both are 18 by default"),
    ("--enable-double-sparsity", "0.5.10", "", "double sparsity is gone"),
    ("--ds-channel-config-path", "0.5.10", "", "double sparsity is gone"),
    ("--ds-heavy-channel-num", "0.5.10", "", "double sparsity is gone"),
    ("--ds-heavy-channel-type", "0.5.10", "", "double sparsity is gone"),
    ("--ds-heavy-token-num", "0.5.10", "", "double sparsity is gone"),
    ("--ds-sparse-decode-threshold", "0.5.10", "", "double sparsity is gone"),
    ("--multi-item-scoring-delimiter", "0.5.10", "", "use --enable-mis"),
    ("--custom-sigquit-handler", "0.5.12.post1", "", "an option of the Python API only"),
    ("--debug-tensor-dump-inject", "0.5.12.post1", "", "a debugging aid that is gone"),
    ("--enable-nan-detection", "0.5.12.post1", "", "set SGLANG_SPEC_NAN_DETECTION=1"),
    ("--enable-piecewise-cuda-graph", "0.5.12.post1", "", "on by default"),
    ("--hybrid-kvcache-ratio", "0.5.12.post1", "", "use --swa-full-tokens-ratio, with its own scale"),
    ("--record-nolora-graph", "0.5.12.post1", "", "nothing replaces it"),
    ("--no-record-nolora-graph", "0.5.12.post1", "", "nothing replaces it"),
    ("--enable-deepep-waterfill", "0.5.15.post1", "--enable-waterfill", ""),
    ("--optimistic-prefill-retries", "0.5.15.post1", "--optimistic-prefill-attempts", ""),
    ("--torchao-config", "0.5.17", "", "torchao is gone; use another --quantization"),
    ("--cuda-graph-bs", "0.5.19", "--cuda-graph-bs-decode", ""),
    ("--cuda-graph-max-bs", "0.5.19", "--cuda-graph-max-bs-decode", ""),
    ("--disable-piecewise-cuda-graph", "0.5.19", "--cuda-graph-backend-prefill=disabled", ""),
    ("--enable-breakable-cuda-graph", "0.5.19", "--cuda-graph-backend-prefill=breakable", ""),
    ("--enforce-piecewise-cuda-graph", "0.5.19", "", "prefill graphs are chosen by default"),
    ("--piecewise-cuda-graph-tokens", "0.5.19", "--cuda-graph-bs-prefill", ""),
    ("--piecewise-cuda-graph-max-tokens", "0.5.19", "--cuda-graph-max-bs-prefill", ""),
    ("--piecewise-cuda-graph-compiler", "0.5.19", "", "the compiled prefill graph is gone"),
    ("--cuda-graph-tc-compiler", "0.5.21", "", "the compiled prefill graph is gone"),
    ("--nsa-prefill-backend", "0.5.19", "--dsa-prefill-backend", ""),
    ("--nsa-decode-backend", "0.5.19", "--dsa-decode-backend", ""),
    ("--nsa-prefill-cp-mode", "0.5.19", "--cp-strategy", ""),
    ("--dsa-prefill-cp-mode", "0.5.19", "--cp-strategy", ""),
    ("--prefill-cp-mode", "0.5.19", "--cp-strategy", ""),
    ("--enable-nsa-prefill-context-parallel", "0.5.19", "--enable-prefill-cp", ""),
    ("--enable-dsa-prefill-context-parallel", "0.5.19", "--enable-prefill-cp", ""),
    ("--enable-prefill-context-parallel", "0.5.19", "--enable-prefill-cp", ""),
    ("--mamba-scheduler-strategy", "0.5.19", "--mamba-radix-cache-strategy", ""),
    ("--keep-mm-feature-on-device", "0.5.19", "--mm-feature-transport=cuda_ipc", ""),
    ("--stream-output", "0.5.19", "--incremental-streaming-output", ""),
    ("--enable-expert-distribution-metrics", "0.5.19", "--expert-balancedness-report-mode=prometheus", ""),
    ("--speculative-dflash-draft-window-size", "0.5.19", "--speculative-draft-window-size", ""),
    ("--enable-gdn-replayssm-spec", "0.5.19", "--enable-linear-replayssm-spec", ""),
    ("--collect-tokens-histogram", "0.5.19", "", "part of --enable-metrics"),
    ("--prefill-round-robin-balance", "0.5.19", "", "it has had no effect since 0.5.8"),
    ("--elastic-ep-rejoin", "0.5.19", "--elastic-ep-join-mode=recover", ""),
    ("--speculative-skip-dp-mlp-sync", "0.5.22", "", "the synchronisation is gone"),
)
REMOVED: Mapping[str, Removed] = MappingProxyType(
    {name: Removed(name, last, (new,) if new else (), why) for name, last, new, why in _ROWS}
)


def find_removed(name: str, version: str) -> Removed | None:
    """Return what became of a flag, when `version` is later than the last version that had it."""
    found = REMOVED.get(name.partition("=")[0].replace("_", "-"))
    return found if found is not None and sort_key(version) > sort_key(found.last) else None

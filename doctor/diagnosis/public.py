"""Choose the facts that a report shows, in the groups of the JSON contract."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from doctor.diagnosis.facts import Facts
from doctor.redact import clean

_GROUPS = {
    "offload.": "offload",
    "mem.": "memory",
    "gpu.": "gpu",
    "seen.": "startup",
    "exit.": "exit",
    "kernel.": "kernel",
    "run.": "runtime",
    "response.": "response",
    "codec.": "codec",
    "log.": "log",
    "http.": "http",
}
_ASKED = (
    "model_path", "tp_size", "dp_size", "pp_size", "ep_size", "nnodes", "node_rank", "base_gpu_id", "device", "dtype",
    "quantization", "kv_cache_dtype", "context_length", "mem_fraction_static", "max_running_requests",
    "max_total_tokens", "chunked_prefill_size", "attention_backend", "moe_runner_backend",
    "cuda_graph_backend_decode", "disable_cuda_graph",
    "cpu_offload_gb", "offload_group_size", "offload_num_in_group", "offload_prefetch_step", "offload_mode",
    "speculative_algorithm", "enable_dp_attention", "enable_hierarchical_cache", "host", "port",
)  # fmt: skip
"""What a person asks first about a launch."""


def publish_facts(facts: Facts) -> Mapping[str, Mapping[str, Any]]:
    """Group the facts worth showing; texts are cleaned, internal ones stay out."""
    groups: dict[str, dict[str, Any]] = {"offload": {}, "memory": {}, "startup": {}}
    for name in facts:
        group = next((group for prefix, group in _GROUPS.items() if name.startswith(prefix)), None)
        if group and facts[name] is not None:
            groups.setdefault(group, {})[name.partition(".")[2]] = _plain(facts[name])
    asked = {
        name: _plain(facts[f"args.{name}"]) for name in _ASKED if facts.get(f"args.{name}") not in (None, False, "")
    }
    if asked:
        groups["launch"] = asked
    return groups


def _plain(value: Any) -> Any:
    if isinstance(value, str):
        return clean(value)[:500]
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value[:100]]
    if isinstance(value, float):
        return round(value, 3)
    return value if value is None or isinstance(value, int) else clean(str(value))[:500]

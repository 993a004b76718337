"""What the torch of each SGLang version knows: its version, and the keys of PYTORCH_ALLOC_CONF."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from types import MappingProxyType

from doctor.launch.versions import sort_key

# `Requires-Dist: torch==` of the wheels; each holds until the next row.
_PINS = (
    ("0.4.6.post5", "2.6.0"),
    ("0.4.10.post2", "2.7.1"),
    ("0.5.2", "2.8.0"),
    ("0.5.6", "2.9.1"),
    ("0.5.12", "2.11.0"),
    ("0.5.18", "2.13.0"),
    ("0.5.22", "2.14.1"),
)
# The first torch whose libc10.so or libc10_cuda.so has the key as a string, of the wheels 2.6.0, 2.8.0, 2.9.1,
# 2.11.0, 2.13.0 and 2.14.1 (2.10 and 2.12 were not opened). torch 2.11 dies of a segmentation fault on a key
# that it does not know (recorded on an H200); others refuse it with an error.
ALLOC_KEYS: Mapping[str, str] = MappingProxyType(
    {
        "backend": "2.6",
        "expandable_segments": "2.6",
        "garbage_collection_threshold": "2.6",
        "max_non_split_rounding_mb": "2.6",
        "max_split_size_mb": "2.6",
        "pinned_num_register_threads": "2.6",
        "pinned_use_background_threads": "2.6",
        "pinned_use_cuda_host_register": "2.6",
        "pinned_use_hip_host_register": "2.6",
        "release_lock_on_cudamalloc": "2.6",
        "release_lock_on_hipmalloc": "2.6",
        "roundup_power2_divisions": "2.6",
        "graph_capture_record_stream_reuse": "2.9",
        "large_segment_size_mb": "2.11",
        "per_process_memory_fraction": "2.11",
        "pinned_reserve_segment_size_mb": "2.11",
        "pinned_free_catch_all": "2.13",
        "pinned_max_cached_size_mb": "2.13",
        "pinned_max_round_threshold_mb": "2.13",
        "throw_on_cudamalloc_oom": "2.13",
    }
)
# torch 2.8 has the string PYTORCH_CUDA_ALLOC_CONF only; 2.9.1 calls that one deprecated.
FIRST_ALLOC_CONF = "2.9"


def torch_of(sglang_version: str) -> str:
    """Return the torch version that a version of SGLang requires."""
    rows = [torch for first, torch in _PINS if sort_key(first) <= sort_key(sglang_version)]
    return rows[-1] if rows else _PINS[0][1]


def unknown_keys(keys: Collection[str], torch: str) -> list[str]:
    """Return the keys of PYTORCH_ALLOC_CONF that a torch version does not know."""
    return [key for key in keys if key not in ALLOC_KEYS or sort_key(ALLOC_KEYS[key]) > sort_key(torch)]

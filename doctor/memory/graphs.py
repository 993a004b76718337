"""Which CUDA graphs SGLang captures: decode batch sizes and prefill token counts, version by version."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from doctor.memory import config as cfg
from doctor.memory.shapes import Model

MAX_CAPTURED = 8192  # larger --cuda-graph-max-bs values would only make the lists long
LATENT_PREFILL_TOKENS = 2048  # MLA's prefill graphs stop here before 0.5.23
# All-to-all backends that the breakable prefill graph accepts (0.5.17 on).
CAPTURABLE = frozenset({"none", "deepep", "megamoe", "flashinfer"})


class Graphs(NamedTuple):
    """The captured sizes, and the largest decode batch that SGLang's reserve is computed from."""

    decode: tuple[int, ...]
    prefill: tuple[int, ...]
    decode_max: int


def choose_graphs(
    gpu_mib: int | None,
    arguments: Mapping[str, object],
    model: Model,
    version: tuple[int, ...],
    chunk: int,
) -> Graphs:
    """Return the sizes that a launch captures."""
    largest = choose_decode_max(gpu_mib, arguments, version)
    given = [n for n in get_numbers(arguments, "cuda_graph_bs_decode", "cuda_graph_bs") if n <= MAX_CAPTURED]
    largest = max(given, default=largest)
    decode = tuple(given) or list_decode_sizes(largest, arguments, version)
    prefill = list_prefill_sizes(choose_prefill_max(arguments, model, version, chunk), version)
    return Graphs(
        decode=decode if captures_decode(arguments) else (),
        prefill=prefill if captures_prefill(arguments, model, version) else (),
        decode_max=largest,
    )


def get_numbers(arguments: Mapping[str, object], *names: str) -> list[int]:
    """Return the positive whole numbers of a list argument."""
    return [n for n in cfg.get_list(arguments, *names) if isinstance(n, int) and n > 0]


def choose_decode_max(gpu_mib: int | None, arguments: Mapping[str, object], version: tuple[int, ...]) -> int:
    """Return the largest captured decode batch: the flag, else by GPU memory and tensor parallel size."""
    given = cfg.get_int(arguments, "cuda_graph_max_bs_decode", "cuda_graph_max_bs")
    if given is not None:
        return min(given, MAX_CAPTURED)
    wide = (cfg.get_int(arguments, "tp_size", "tensor_parallel_size") or 1) >= 4
    largest = choose_old_max(gpu_mib, version, wide=wide)
    if version >= (0, 5, 4):
        largest = choose_new_max(gpu_mib, version, wide=wide)
    running = cfg.get_int(arguments, "max_running_requests")
    return min(largest, running) if running and version >= (0, 5, 22) else largest


def choose_old_max(gpu_mib: int | None, version: tuple[int, ...], *, wide: bool) -> int:
    """Return the largest batch of 0.4.6 to 0.5.2 (server_args.py, cuda_graph_runner.py)."""
    small = 25_000 if version < (0, 4, 10) else 35 * 1024
    if gpu_mib is not None and gpu_mib < small:
        return 80 if wide else 8
    if gpu_mib is None or gpu_mib <= (96 if version < (0, 4, 10) else 90) * 1024:
        return 160
    return 512 if gpu_mib > 160_000 and version >= (0, 4, 10) else 256


def choose_new_max(gpu_mib: int | None, version: tuple[int, ...], *, wide: bool) -> int:
    """Return the largest batch of 0.5.4 on."""
    if gpu_mib is None:
        return 160
    small = (48, 160) if version >= (0, 5, 21) else (24, 80) if version >= (0, 5, 6) else (16, 80)
    tiers = ((20, (8, 8)), (35, small), (60, (32, 160)), (160, (256, 512)))
    pair = next((sizes for gib, sizes in tiers if gpu_mib < gib * 1024), (512, 512))
    return pair[1] if wide else pair[0]


def list_decode_sizes(largest: int, arguments: Mapping[str, object], version: tuple[int, ...]) -> tuple[int, ...]:
    """Return the captured decode batch sizes up to `largest`."""
    speculative = bool(cfg.get_text(arguments, "speculative_algorithm"))
    if version < (0, 5, 4):
        sizes = list_old_decode_sizes(speculative=speculative)
    elif cfg.get_flag(arguments, "disable_cuda_graph_padding"):
        sizes = list(range(1, largest + 1))
    elif speculative:
        # 0.5.4 left 64 out.
        last = 65 if version >= (0, 5, 6) else 64
        sizes = [*range(1, 9), *range(10, 33, 2), *range(40, last, 4), *range(72, 257, 8)]
        sizes += range(272, largest + 1, 16)
    else:
        sizes = [1, 2, 4, 8, 12, *range(16, 257, 8), *range(272, 512, 16), *range(512, largest + 1, 32)]
    kept = [size for size in sizes if size <= largest]
    # Since 0.5.10 the largest batch is always among them.
    return tuple(kept if version < (0, 5, 10) or largest in kept else [*kept, largest])


def list_old_decode_sizes(*, speculative: bool) -> list[int]:
    """Return the sizes of 0.4.6 to 0.5.2 (cuda_graph_runner.py get_batch_sizes_to_capture)."""
    if speculative:
        return [*range(1, 9), *range(10, 33, 2), *range(40, 64, 8), *range(80, 161, 16), *range(168, 513, 8)]
    return [1, 2, 4, 8, *range(16, 257, 8), *range(272, 513, 16)]


def captures_decode(arguments: Mapping[str, object]) -> bool:
    """Tell whether decode graphs are captured at all."""
    off = any(cfg.get_flag(arguments, name) for name in ("disable_cuda_graph", "disable_decode_cuda_graph"))
    backend = cfg.get_text(arguments, "cuda_graph_backend_decode")
    disaggregated = cfg.get_text(arguments, "disaggregation_mode") == "prefill"
    native = cfg.get_text(arguments, "attention_backend") == "torch_native"
    return backend != "disabled" and not native and (bool(backend) or not (off or disaggregated))


def choose_prefill_max(arguments: Mapping[str, object], model: Model, version: tuple[int, ...], chunk: int) -> int:
    """Return the largest captured prefill: the flag, else the chunk, less for MLA and small token pools."""
    given = cfg.get_int(arguments, "cuda_graph_max_bs_prefill", "piecewise_cuda_graph_max_tokens")
    if given is not None:
        return min(given, 1 << 20)
    largest = chunk
    if model.latent:
        largest = min(8192, chunk) if version >= (0, 5, 23) else LATENT_PREFILL_TOKENS
    caps = [cfg.get_int(arguments, "max_total_tokens")] if version >= (0, 5, 10) else []
    if (0, 5, 15) <= version < (0, 5, 17):
        caps.append(cfg.get_int(arguments, "context_length"))
    if version >= (0, 5, 10) and "llama-2" in cfg.get_text(arguments, "model_path").lower():
        caps.append(4096)
    return min([largest, *(cap for cap in caps if cap)])


def list_prefill_sizes(largest: int, version: tuple[int, ...]) -> tuple[int, ...]:
    """Return the captured prefill token counts up to `largest`."""
    sizes = [*range(4, 33, 4), *range(48, 257, 16), *range(288, 513, 32)]
    if version < (0, 5, 8):
        sizes += [*range(640, 4097, 128), *range(4352, largest + 1, 256)]
    else:
        first = 576 if version >= (0, 5, 10) else 640
        sizes += [*range(first, 1025, 64), *range(1280, 4097, 256), *range(4608, largest + 1, 512)]
    return tuple(size for size in sizes if size <= largest)


def captures_prefill(arguments: Mapping[str, object], model: Model, version: tuple[int, ...]) -> bool:
    """Tell whether prefill graphs are captured: opt-in before 0.5.10, on by default with exceptions since."""
    backend = cfg.get_text(arguments, "cuda_graph_backend_prefill")
    if backend:
        return backend != "disabled"
    off = ("disable_cuda_graph", "disable_prefill_cuda_graph", "disable_piecewise_cuda_graph")
    if any(cfg.get_flag(arguments, name) for name in off):
        return False
    if version < (0, 5, 10):
        return cfg.get_flag(arguments, "enable_piecewise_cuda_graph")
    if version < (0, 5, 15):
        return not is_piecewise_blocked(arguments, model, version)
    return not is_breakable_blocked(arguments, model, version)


def uses_attention_dp(arguments: Mapping[str, object]) -> bool:
    """Tell whether attention data parallelism is on."""
    return cfg.get_flag(arguments, "enable_dp_attention") or (cfg.get_int(arguments, "attn_dp_size") or 1) > 1


def is_piecewise_blocked(arguments: Mapping[str, object], model: Model, version: tuple[int, ...]) -> bool:
    """Tell whether 0.5.10 and 0.5.12 switch the piecewise graph off (_handle_piecewise_cuda_graph)."""
    flags = (
        "enable_torch_compile",
        "enable_lora",
        "enable_hierarchical_cache",
        "enable_symm_mem",
        "enable_eplb",
    )
    texts = ("lora_paths", "dllm_algorithm", "expert_distribution_recorder_mode")
    return (
        any(cfg.get_flag(arguments, name) for name in (*flags, "enable_deterministic_inference"))
        or any(arguments.get(name) for name in texts)
        or uses_attention_dp(arguments)
        or (cfg.get_int(arguments, "pp_size") or 1) > 1
        or cfg.get_float(arguments, "cpu_offload_gb", 0) > 0
        or cfg.get_text(arguments, "moe_a2a_backend") not in {"", "none"}
        or cfg.get_text(arguments, "disaggregation_mode") not in {"", "null"}
        or model.multimodal
        or (version < (0, 5, 12) and bool(arguments.get("speculative_algorithm")))
    )


def is_breakable_blocked(arguments: Mapping[str, object], model: Model, version: tuple[int, ...]) -> bool:
    """Tell whether 0.5.15 on switches the breakable graph off (_disable_breakable_cudagraph_if_incompatible).

    The list shrank: MLA (until 0.5.17), LoRA, attention DP and any all-to-all backend (until 0.5.15).
    """
    backend = cfg.get_text(arguments, "moe_a2a_backend") or "none"
    always = (
        model.multimodal
        or model.architecture.startswith("DeepseekV4")
        or (cfg.get_int(arguments, "attn_cp_size") or 1) > 1
        or cfg.get_text(arguments, "disaggregation_mode") == "decode"
    )
    if version < (0, 5, 17):
        lora = bool(arguments.get("lora_paths")) or cfg.get_flag(arguments, "enable_lora")
        return always or model.latent or lora or backend != "none" or uses_attention_dp(arguments)
    late = (
        (cfg.get_int(arguments, "dcp_size") or 1) > 1
        or cfg.get_flag(arguments, "enable_two_batch_overlap")
        or backend not in CAPTURABLE
        or (version < (0, 5, 18) and model.latent)
        or (version >= (0, 5, 19) and (cfg.get_int(arguments, "pp_size") or 1) > 1)
    )
    return always or late

"""What --cpu-offload-gb and --offload-group-size move to the host, and what that costs there.

SGLang's two offloaders are srt/utils/offloader.py (0.5.2 to 0.5.23; before, only the first exists).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from doctor.memory import config as cfg
from doctor.memory.shapes import Layer, Model, Param
from doctor.memory.units import GIB, MIB, round_up
from doctor.memory.weights import Stage

PAGE = 4096
# Tensors that OffloaderV2 moves: expert weights, and NVFP4's swizzled scales (models/deepseek_v2.py).
GROUPED = ("w13_weight", "w2_weight", "w13_blockscale_swizzled", "w2_blockscale_swizzled")
# torch 2.13, in which pinned_max_round_threshold_mb exists, came with sglang 0.5.19.
EXACT_SINCE = (0, 5, 19)
# kv_b_proj stays on the GPU because w_kc and w_vc are made from it (0.5.21, _get_resident_parameter_ids).
RESIDENT_SINCE = (0, 5, 21)


class Offload(NamedTuple):
    """What one rank moves to the host.

    `kind` is "none", "layers" (--cpu-offload-gb) or "groups" (--offload-group-size). `moved` bytes leave the
    GPU, `pinned` bytes are taken on the host after rounding, `in_flight` bytes come back to the GPU for the
    layers at work. `kept` and `total` count expert layers.
    """

    kind: str
    moved: int
    pinned: int
    in_flight: int
    kept: int
    total: int


NO_OFFLOAD = Offload("none", 0, 0, 0, 0, 0)


def round_pinned(size: int, threshold: int | None = None) -> int:
    """Return what torch's pinned allocator takes for a tensor: the next power of two.

    Above `threshold` bytes (pinned_max_round_threshold_mb) the size is only rounded to pages. Measured:
    768 MiB became 1 GiB, 384 became 512 MiB, and 704 + 352 MiB became 1.5 GiB.
    """
    if size <= 0:
        return 0
    exact = threshold is not None and size > threshold
    return round_up(size, PAGE) if exact else 1 << (size - 1).bit_length()


def read_threshold(arguments: Mapping[str, object], version: tuple[int, ...]) -> int | None:
    """Return pinned_max_round_threshold_mb in bytes from PYTORCH_ALLOC_CONF, None when absent or unknown.

    Environment variables stand in the arguments under their own names. torch before 2.13 does not know the
    setting (and dies of it), so it changes nothing there.
    """
    text = cfg.get_text(arguments, "PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF")[:1000]
    for entry in text.split(","):
        key, _, value = entry.partition(":")
        if key.strip() == "pinned_max_round_threshold_mb" and value.strip().isdecimal():
            return min(int(value.strip()[:9]), 1 << 30) * MIB if version >= EXACT_SINCE else None
    return None


def plan_offload(model: Model, stage: Stage, arguments: Mapping[str, object], version: tuple[int, ...]) -> Offload:
    """Return what this launch moves; --cpu-offload-gb wins when both kinds are asked for."""
    group = cfg.get_int(arguments, "offload_group_size")
    layers = [model.layers[number] for number in stage.layers]
    threshold = read_threshold(arguments, version)
    if asks_for_layers(arguments):
        budget = int(cfg.get_float(arguments, "cpu_offload_gb", 0.0) * GIB)
        return plan_layers(layers, budget, version, threshold)
    if group is not None:
        return plan_groups(layers, group, arguments, threshold)
    return NO_OFFLOAD


def plan_layers(layers: list[Layer], budget: int, version: tuple[int, ...], threshold: int | None) -> Offload:
    """Move the first layers' parameters, one by one, until `budget` bytes are moved; the last one overshoots.

    Each layer is copied back whole for every forward pass, so the largest one is in flight.
    """
    moved: list[Param] = []
    total = 0
    largest = 0
    for layer in layers:
        before = total
        for param in list_movable(layer, version):
            if total >= budget:
                break
            moved.append(param)
            total += param.size
        largest = max(largest, total - before)
    return Offload("layers", total, sum_pinned(moved, threshold), largest, 0, 0)


def list_movable(layer: Layer, version: tuple[int, ...]) -> list[Param]:
    """Return the parameters of a layer that the first offloader may move."""
    resident = "self_attn.kv_b_proj" if version >= RESIDENT_SINCE else "\0"
    return [p for p in layer.params if p.part != "buffer" and not p.name.startswith(resident)]


def sum_pinned(params: Iterable[Param], threshold: int | None) -> int:
    """Return the pinned bytes of these tensors, each rounded on its own."""
    return sum(round_pinned(param.size, threshold) for param in params)


def list_grouped(layer: Layer) -> list[Param]:
    """Return the tensors that grouped offload moves; empty for a dense layer."""
    return [p for p in layer.params if p.part == "experts" and p.name.endswith(GROUPED)]


def plan_groups(layers: list[Layer], group: int, arguments: Mapping[str, object], threshold: int | None) -> Offload:
    """Move the experts of layer i when i % group >= group - num_in_group, i counted inside the stage.

    The experts of prefetch_step + 1 layers are on the GPU at a time.
    """
    number = min(cfg.get_int(arguments, "offload_num_in_group") or 1, group)
    step = cfg.get_int(arguments, "offload_prefetch_step") or 1
    sparse = [(index, found) for index, layer in enumerate(layers) if (found := list_grouped(layer))]
    moved = [found for index, found in sparse if index % group >= group - number]
    sizes = sorted((sum(param.size for param in found) for found in moved), reverse=True)
    is_host = cfg.get_text(arguments, "offload_mode") in {"", "cpu"}
    pinned = sum(sum_pinned(found, threshold) for found in moved) if is_host else 0
    return Offload("groups", sum(sizes), pinned, sum(sizes[: step + 1]), len(sparse) - len(moved), len(sparse))


def find_offload_conflicts(model: Model, arguments: Mapping[str, object], version: tuple[int, ...]) -> list[str]:
    """Return why this offload will crash the server."""
    notes = []
    if asks_for_groups(arguments) and not asks_for_layers(arguments) and not model.grouped_offload:
        notes.append(
            f"--offload-group-size crashes with {model.architecture} (TypeError: 'NoneType' object is not "
            "callable): only DeepSeek-V2/V3 models support it; use --cpu-offload-gb"
        )
    settings = cfg.get_text(arguments, "PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF")
    if "pinned_max" in settings and version < EXACT_SINCE:
        notes.append(
            "PYTORCH_ALLOC_CONF names a pinned_max_* setting that torch before 2.13 (sglang before 0.5.19) "
            "does not know: the scheduler dies with a segmentation fault"
        )
    return notes


def asks_for_groups(arguments: Mapping[str, object]) -> bool:
    """Tell whether --offload-group-size is set."""
    return cfg.get_int(arguments, "offload_group_size") is not None


def asks_for_layers(arguments: Mapping[str, object]) -> bool:
    """Tell whether --cpu-offload-gb is set."""
    return cfg.get_float(arguments, "cpu_offload_gb", 0.0) > 0


def find_offload_notes(arguments: Mapping[str, object]) -> list[str]:
    """Return what of the offload asked for is silently ignored."""
    both = asks_for_groups(arguments) and asks_for_layers(arguments)
    return ["--cpu-offload-gb wins over --offload-group-size, which is ignored"] if both else []


def find_prefetch_conflict(offload: Offload, arguments: Mapping[str, object]) -> list[str]:
    """Return why --offload-prefetch-step is too large for the layers that are offloaded."""
    step = cfg.get_int(arguments, "offload_prefetch_step") or 1
    moved = offload.total - offload.kept
    if offload.kind == "groups" and step > max(moved, 1):
        return [f"--offload-prefetch-step {step} exceeds the {moved} offloaded layers (IndexError at start)"]
    return []

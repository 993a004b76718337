"""Parameter bytes by part: counted from headers, computed from the config, and the two reconciled."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from doctor.memory.naming import classify
from doctor.memory.parallel import Ranks, share
from doctor.memory.shapes import Layer, Model, Param, Tensor
from doctor.memory.units import format_size

TOLERANCE = 0.03  # below this, config and headers agree and the config's finer picture is used as it is
DIVIDED = frozenset({"attention", "dense", "experts", "embedding", "head"})


class Stage(NamedTuple):
    """One pipeline stage's layers, and whether it has the embedding and the head."""

    layers: range
    is_first: bool
    is_last: bool


class Counted(NamedTuple):
    """What a checkpoint's headers say: bytes by part and by dtype."""

    parts: Mapping[str, int]
    dtypes: Mapping[str, int]


def count_tensors(tensors: Iterable[Tensor], layers: int) -> Counted:
    """Sum a checkpoint's tensors; layers beyond the last are draft layers, rotary tables are not loaded."""
    parts: dict[str, int] = {}
    dtypes: dict[str, int] = {}
    for tensor in tensors:
        if "rotary_emb" in tensor.name:
            continue
        layer, part = classify(tensor.name)
        part = "draft" if layer >= layers > 0 else part or "other"
        parts[part] = parts.get(part, 0) + tensor.size
        dtypes[tensor.dtype] = dtypes.get(tensor.dtype, 0) + tensor.size
    return Counted(parts, dtypes)


def list_params(model: Model, stage: Stage) -> list[Param]:
    """Return everything one rank of this stage holds, draft layers on the last stage included."""
    chosen = [model.layers[number] for number in stage.layers]
    found = [param for layer in chosen for param in layer.params]
    found += model.first if stage.is_first else ()
    found += model.last if stage.is_last else ()
    found += [param for layer in model.draft for param in layer.params] if stage.is_last else []
    return [*found, *model.everywhere]


def sum_parts(params: Iterable[Param]) -> dict[str, int]:
    """Return bytes by part."""
    sums: dict[str, int] = {}
    for param in params:
        sums[param.part] = sums.get(param.part, 0) + param.size
    return sums


def get_whole_stage(model: Model) -> Stage:
    """Return the stage that holds the whole model."""
    return Stage(range(len(model.layers)), is_first=True, is_last=True)


def compare_parts(counted: Counted, whole: Model) -> dict[str, float] | None:
    """Return, for each part that differs, the factor from the computed to the counted bytes.

    None when the totals agree. Derived buffers and draft layers are not in the comparison; a tied head that
    the checkpoint stores all the same is not loaded, so it is not counted.
    """
    computed = sum_parts(list_params(whole._replace(draft=()), get_whole_stage(whole)))
    computed.pop("buffer", None)
    loaded = {part: size for part, size in counted.parts.items() if part != "draft"}
    if "head" not in computed:
        loaded.pop("head", None)
    total = sum(loaded.values())
    if abs(total - sum(computed.values())) <= TOLERANCE * total:
        return None
    return {
        part: loaded[part] / size
        for part, size in computed.items()
        if part in loaded and size and abs(loaded[part] - size) > TOLERANCE * size
    }


def list_extras(counted: Counted, whole: Model, ranks: Ranks) -> tuple[Param, ...]:
    """Return parts that the checkpoint has and the computed model lacks, as one rank would hold them.

    Nothing is known of how SGLang divides an unknown part, so it counts in full on every rank.
    """
    computed = sum_parts(list_params(whole, get_whole_stage(whole)))
    missing = {p: s for p, s in counted.parts.items() if p not in computed and p not in {"draft", "head"}}
    return tuple(
        Param(f"({part})", part, share(size, ranks.tp) if part in DIVIDED else size, "as stored")
        for part, size in sorted(missing.items())
        if size > 0
    )


def scale_model(model: Model, factors: Mapping[str, float], extras: tuple[Param, ...]) -> Model:
    """Return the model with each part's tensors scaled to what the headers say, plus the extra parts."""
    if not factors and not extras:
        return model
    return model._replace(
        layers=tuple(scale_layer(layer, factors) for layer in model.layers),
        first=scale_params(model.first, factors),
        last=scale_params(model.last, factors),
        everywhere=(*scale_params(model.everywhere, factors), *extras),
    )


def scale_layer(layer: Layer, factors: Mapping[str, float]) -> Layer:
    """Return a layer with scaled tensors."""
    return layer._replace(params=scale_params(layer.params, factors))


def scale_params(params: tuple[Param, ...], factors: Mapping[str, float]) -> tuple[Param, ...]:
    """Return the tensors with the sizes multiplied by their part's factor."""
    return tuple(param._replace(size=round(param.size * factors.get(param.part, 1.0))) for param in params)


def describe_factors(factors: Mapping[str, float], counted: Counted) -> list[str]:
    """Return a sentence for each part where headers and config disagree."""
    return [
        f"the files hold {format_size(counted.parts[part])} of {part} where config.json describes "
        f"{format_size(counted.parts[part] / factor)}: the files are believed"
        for part, factor in sorted(factors.items())
        if factor > 0
    ]

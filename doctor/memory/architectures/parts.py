"""The building blocks that architecture families are put together from, each sized for one rank."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from doctor.memory import config as cfg
from doctor.memory.parallel import Ranks, share
from doctor.memory.quant import Quant, Scheme, is_ignored, measure
from doctor.memory.shapes import Cache, Layer, Param


class Context(NamedTuple):
    """All that decides the size of a model's tensors on one rank."""

    config: cfg.Config
    ranks: Ranks
    quant: Quant
    arguments: Mapping[str, object]


class Heads(NamedTuple):
    """The heads of one attention layer and their widths; `v_dim` 0 means the same as `dim`."""

    query: int
    key: int
    dim: int
    v_dim: int = 0


class Family(NamedTuple):
    """A family of architectures: the names it answers to and how one of its layers is built.

    `types` are model_type values, used when the name is unknown. `tied` is what a missing
    tie_word_embeddings means. `window_pool` is the first version in which SGLang keeps the family's
    sliding-window layers in a pool of their own (configs/model_config.py is_hybrid_swa_model), or None, and
    `window_ratio` that pool's default share of tokens (--swa-full-tokens-ratio).
    `grouped_offload`: --offload-group-size works (models/deepseek_v2.py alone passes what it needs).
    """

    names: frozenset[str]
    types: frozenset[str]
    build_layer: Callable[[Context, int], Layer]
    tied: bool = False
    window_pool: tuple[int, ...] | None = None
    window_ratio: float = 0.8
    grouped_offload: bool = False


def get_hidden(context: Context) -> int:
    """Return the model's hidden size."""
    return cfg.need(context.config, "hidden_size", "n_embd", "d_model")


def get_heads(config: cfg.Config) -> Heads:
    """Return the heads under the names that configs use; absent key heads mean one per query head."""
    query = cfg.need(config, *cfg.HEAD_KEYS)
    names = ("n_head_kv", "kv_n_heads", "num_kv_heads", "num_key_value_heads", "multi_query_group_num")
    key = cfg.find(config, *names, default=query)
    return Heads(query, key, cfg.get_head_dim(config))


def choose_scheme(quant: Quant, layer: int, part: str) -> Scheme | None:
    """Return how this part of this layer is quantized, None when it is not."""
    scheme = quant.experts if part == "experts" else quant.linear
    return None if scheme is None or is_ignored(quant, layer, part) else scheme


def make_plain(context: Context, name: str, part: str, elements: int, width: int = 0) -> Param:
    """Return an unquantized tensor; `width` bytes per element, 0 for the model's own."""
    quant = context.quant
    dtype = {4: "fp32"}.get(width, quant.dtype)
    return Param(name, part, elements * (width or quant.width), dtype)


def make_linear(  # noqa: PLR0913 - a matrix has this many properties
    context: Context, layer: int, name: str, part: str, shape: tuple[int, int], *, bias: bool = False
) -> tuple[Param, ...]:
    """Return the tensors of one linear layer of rows x columns: weight, scales, bias."""
    rows, columns = shape
    scheme = choose_scheme(context.quant, layer, part)
    if scheme is None:
        found: tuple[Param, ...] = (make_plain(context, f"{name}.weight", part, rows * columns),)
    else:
        weights, scales = measure(scheme, rows, columns)
        found = (
            Param(f"{name}.weight", part, weights, scheme.dtype),
            *([Param(f"{name}.weight_scale", part, scales, "scale")] if scales else []),
        )
    return (*found, make_plain(context, f"{name}.bias", part, rows)) if bias else found


def make_attention(  # noqa: PLR0913 - the variants of one layer, all keyword-only
    context: Context,
    layer: int,
    heads: Heads,
    *,
    bias: bool = False,
    output_bias: bool = False,
    qk_norm: bool = False,
    gated: bool = False,
) -> tuple[Param, ...]:
    """Return the tensors of multi-head or grouped-query attention; `gated` doubles the query projection.

    When there are fewer key heads than ranks, each rank keeps a copy of one.
    """
    hidden = get_hidden(context)
    query = share(heads.query, context.ranks.attention)
    key = max(1, heads.key // context.ranks.attention)
    v_dim = heads.v_dim or heads.dim
    rows = query * heads.dim * (2 if gated else 1) + key * (heads.dim + v_dim)
    norms = (make_plain(context, "self_attn.qk_norm", "norm", 2 * heads.dim),) if qk_norm else ()
    return (
        *make_linear(context, layer, "self_attn.qkv_proj", "attention", (rows, hidden), bias=bias),
        *make_linear(context, layer, "self_attn.o_proj", "attention", (hidden, query * v_dim), bias=output_bias),
        *norms,
    )


def make_mlp(  # noqa: PLR0913 - the variants of one layer, all keyword-only
    context: Context, layer: int, width: int, *, part: str = "dense", gated: bool = True, bias: bool = False
) -> tuple[Param, ...]:
    """Return the tensors of a dense MLP or of shared experts, divided among the ranks that share it."""
    hidden = get_hidden(context)
    ranks = context.ranks.shared if part == "shared" else context.ranks.dense
    local = share(width, ranks)
    name = "mlp.shared_experts" if part == "shared" else "mlp"
    return (
        *make_linear(context, layer, f"{name}.gate_up_proj", part, ((2 if gated else 1) * local, hidden), bias=bias),
        *make_linear(context, layer, f"{name}.down_proj", part, (hidden, local), bias=bias),
    )


def make_experts(context: Context, layer: int, count: int, width: int, *, gated: bool = True) -> tuple[Param, ...]:
    """Return the stacked expert tensors w13 and w2 of this rank, then their scales.

    Redundant experts (--ep-num-redundant-experts) are added before the division.
    """
    extra = cfg.get_int(context.arguments, "ep_num_redundant_experts") or 0
    hidden = get_hidden(context)
    copies = share(count + extra, context.ranks.experts)
    local = share(width, context.ranks.moe)
    shapes = (("w13", ((2 if gated else 1) * local, hidden)), ("w2", (hidden, local)))
    scheme = choose_scheme(context.quant, layer, "experts")
    if scheme is None:
        return tuple(
            make_plain(context, f"mlp.experts.{name}_weight", "experts", copies * rows * columns)
            for name, (rows, columns) in shapes
        )
    return make_quantized_experts(scheme, copies, shapes)


def make_quantized_experts(
    scheme: Scheme, copies: int, shapes: tuple[tuple[str, tuple[int, int]], ...]
) -> tuple[Param, ...]:
    """Return both weights, then both scale tensors, which is the order SGLang registers them in."""
    sizes = [(name, *measure(scheme, *shape, copies)) for name, shape in shapes]
    suffix = "blockscale_swizzled" if scheme.dtype == "nvfp4" else "weight_scale"
    weights = tuple(Param(f"mlp.experts.{n}_weight", "experts", size, scheme.dtype) for n, size, _ in sizes)
    scales = tuple(Param(f"mlp.experts.{n}_{suffix}", "experts", size, "scale") for n, _, size in sizes if size)
    return weights + scales


def make_router(context: Context, count: int, width: int = 0) -> Param:
    """Return the router's matrix, which no method quantizes; `width` 4 for routers kept in fp32."""
    return make_plain(context, "mlp.gate.weight", "router", count * get_hidden(context), width)


def make_norms(context: Context, count: int = 2) -> tuple[Param, ...]:
    """Return a layer's `count` norms of hidden size."""
    return (make_plain(context, "norms", "norm", count * get_hidden(context)),)


def make_cache(context: Context, heads: Heads, window: int = 0) -> Cache:
    """Return what a layer with key and value heads keeps per token; `window` 0 for full attention."""
    key = max(1, heads.key // context.ranks.attention)
    elements = key * (heads.dim + (heads.v_dim or heads.dim))
    return Cache("window" if window else "full", elements=elements, window=window)


def list_layer_types(config: cfg.Config) -> list[str]:
    """Return config.layer_types (or an older name of it) as strings, empty when the config has none."""
    names = cfg.get_list(config.text, "layer_types", "layers_block_type", "attn_type_list")
    return [str(name) for name in names[: cfg.MAX_LAYERS]]


def get_layer_type(config: cfg.Config, layer: int, default: str) -> str:
    """Return one layer's type; layers beyond the list (draft layers) count as `default`."""
    types = list_layer_types(config)
    return types[layer] if layer < len(types) else default

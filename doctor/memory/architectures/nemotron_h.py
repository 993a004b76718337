"""Nemotron-H: a pattern of Mamba-2, attention, MLP and expert layers, one letter each."""

from __future__ import annotations

from doctor.memory import config as cfg
from doctor.memory.architectures import parts, qwen_next
from doctor.memory.parallel import share
from doctor.memory.shapes import Cache, Layer, Param

NAMES = frozenset({"NemotronHForCausalLM"})
TYPES = frozenset({"nemotron_h"})
LETTERS = {"M": "mamba", "*": "attention", "-": "mlp", "E": "moe"}
EMPTY = Cache("none")


def build_layer(context: parts.Context, layer: int) -> Layer:
    """Return one layer; it has a single mixer, of the kind its letter names."""
    kind = get_kind(context.config, layer)
    heads = parts.get_heads(context.config)
    norms = parts.make_norms(context, 1)
    if kind == "attention":
        params = parts.make_attention(context, layer, heads)
        return Layer(layer, (*params, *norms), parts.make_cache(context, heads))
    if kind == "mamba":
        return Layer(layer, (*make_mamba(context, layer), *norms), make_state(context))
    mlp = make_sparse(context, layer) if kind == "moe" else make_dense(context, layer)
    return Layer(layer, (*mlp, *norms), EMPTY)


def get_kind(config: cfg.Config, layer: int) -> str:
    """Return the kind of a layer from hybrid_override_pattern or layers_block_type."""
    pattern = cfg.get_text(config.text, "hybrid_override_pattern")
    if layer < len(pattern):
        return LETTERS.get(pattern[layer], "mlp")
    return parts.get_layer_type(config, layer, "mlp")


def make_dense(context: parts.Context, layer: int) -> tuple[Param, ...]:
    """Return an ungated MLP (models/nemotron_h.py NemotronHMLP)."""
    return parts.make_mlp(context, layer, cfg.need(context.config, "intermediate_size"), gated=False)


def make_sparse(context: parts.Context, layer: int) -> tuple[Param, ...]:
    """Return router, ungated experts and the shared expert."""
    config = context.config
    count = cfg.need(config, "n_routed_experts")
    shared = cfg.find(config, "moe_shared_expert_intermediate_size") * cfg.find(config, "n_shared_experts", default=1)
    return (
        parts.make_router(context, count, 4),
        *parts.make_experts(context, layer, count, cfg.need(config, "moe_intermediate_size"), gated=False),
        *(parts.make_mlp(context, layer, shared, part="shared", gated=False) if shared else ()),
    )


def get_mamba_widths(context: parts.Context) -> tuple[int, int, int]:
    """Return this rank's inner width, its width of B plus C, and its heads.

    Groups that do not divide among the ranks are repeated (configs/mamba_utils.py, 0.5.23).
    """
    config, ranks = context.config, context.ranks.attention
    heads = cfg.need(config, "mamba_num_heads", "mamba_n_heads")
    groups = cfg.find(config, "n_groups", "mamba_n_groups", default=1)
    groups = groups if groups % ranks == 0 else groups + ranks - groups
    inner = heads * cfg.need(config, "mamba_head_dim", "mamba_d_head")
    return (
        share(inner, ranks),
        share(2 * groups * cfg.need(config, "ssm_state_size", "mamba_d_state"), ranks),
        share(heads, ranks),
    )


def make_mamba(context: parts.Context, layer: int) -> tuple[Param, ...]:
    """Return a Mamba-2 mixer (layers/attention/mamba/mamba.py MambaMixer2)."""
    hidden = parts.get_hidden(context)
    inner, selection, heads = get_mamba_widths(context)
    kernel = cfg.find(context.config, "conv_kernel", "mamba_d_conv", default=4)
    shape = (2 * inner + selection + heads, hidden)
    return (
        parts.make_plain(context, "mixer.conv1d", "attention", (inner + selection) * (kernel + 1)),
        *parts.make_linear(context, layer, "mixer.in_proj", "attention", shape),
        parts.make_plain(context, "mixer.decay", "attention", 3 * heads, 4),
        *parts.make_linear(context, layer, "mixer.out_proj", "attention", (hidden, inner)),
    )


def make_state(context: parts.Context) -> Cache:
    """Return the bytes one request's state takes in a Mamba layer (mamba_cache_per_req)."""
    inner, selection, heads = get_mamba_widths(context)
    kernel = cfg.find(context.config, "conv_kernel", "mamba_d_conv", default=4)
    width = cfg.need(context.config, "mamba_head_dim", "mamba_d_head")
    matrix = width * cfg.need(context.config, "ssm_state_size", "mamba_d_state")
    convolution = (inner + selection) * (kernel - 1) * 2
    return Cache("state", state=convolution + heads * matrix * qwen_next.get_state_width(context))


FAMILY = parts.Family(NAMES, TYPES, build_layer)

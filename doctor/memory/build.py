"""A model on one rank: its layers from its architecture's family, and what lies outside the layers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from doctor.memory import config as cfg
from doctor.memory.architectures import generic, parts
from doctor.memory.parallel import Ranks, share
from doctor.memory.quant import Quant
from doctor.memory.shapes import Layer, Model, Param
from doctor.memory.units import round_up

VOCABULARY_STEP = 64  # layers/vocab_parallel_embedding.py DEFAULT_VOCAB_PADDING_SIZE, 0.4.6 to 0.5.23

# Algorithms whose draft is the checkpoint's own multi-token-prediction layers when no draft path is given.
OWN_DRAFT = frozenset({"EAGLE", "NEXTN"})


class Choice(NamedTuple):
    """The family that builds a model, under which name it was found, and whether it is more than a guess."""

    family: parts.Family
    name: str
    known: bool


def choose_family(config: cfg.Config) -> Choice:
    """Find the family by architecture name, then by model_type, else the generic one."""
    names = cfg.list_architectures(config)
    kind = cfg.get_text(config.text, "model_type")
    families = list(list_families())
    for name in names:
        for family in families:
            if name in family.names:
                return Choice(family, name, known=True)
    for family in families:
        if kind in family.types:
            return Choice(family, names[0] if names else kind, known=True)
    return Choice(generic.FAMILY, names[0] if names else kind or "(none)", known=False)


def list_families() -> Iterator[parts.Family]:
    """Yield the family of every module in the architectures folder."""
    from importlib import import_module
    from pkgutil import iter_modules

    from doctor.memory import architectures

    for module in iter_modules(architectures.__path__):
        family = getattr(import_module(f"{architectures.__name__}.{module.name}"), "FAMILY", None)
        if isinstance(family, parts.Family):
            yield family


def build_model(
    config: cfg.Config,
    choice: Choice,
    ranks: Ranks,
    quant: Quant,
    settings: tuple[Mapping[str, object], tuple[int, ...]],
) -> Model:
    """Return what one rank holds of the model; `settings` are the server arguments and SGLang's version.

    Raises MissingSizeError when the config lacks a size the family needs.
    """
    arguments, version = settings
    context = parts.Context(config, ranks, quant, arguments)
    layers = tuple(choice.family.build_layer(context, layer) for layer in range(cfg.count_layers(config)))
    since = choice.family.window_pool
    return Model(
        architecture=choice.name,
        layers=layers,
        first=(make_embedding(context),),
        last=make_head(context, tied=choice.family.tied),
        everywhere=(*make_rope(context), *make_vision(config)),
        draft=make_draft(context, choice.family),
        latent=any(layer.cache.kind == "latent" for layer in layers),
        multimodal=has_vision(config),
        window_pool=since is not None and version >= since and not disables_window_pool(arguments),
        window_ratio=cfg.get_float(arguments, "swa_full_tokens_ratio", choice.family.window_ratio),
        grouped_offload=choice.family.grouped_offload,
    )


def disables_window_pool(arguments: Mapping[str, object]) -> bool:
    """Tell whether --disable-hybrid-swa-memory puts all layers into one pool."""
    return cfg.get_flag(arguments, "disable_hybrid_swa_memory")


def get_vocabulary(context: parts.Context, ranks: int) -> int:
    """Return one rank's rows of the vocabulary, after padding."""
    return share(round_up(cfg.need(context.config, "vocab_size", "padded_vocab_size"), VOCABULARY_STEP), ranks)


def make_embedding(context: parts.Context) -> Param:
    """Return this rank's rows of the input embedding."""
    rows = get_vocabulary(context, context.ranks.embedding)
    return parts.make_plain(context, "embed_tokens.weight", "embedding", rows * parts.get_hidden(context))


def make_head(context: parts.Context, *, tied: bool) -> tuple[Param, ...]:
    """Return the final norm and the output head, unless the head is the embedding itself.

    A tied head needs its own copy when it lives on another pipeline stage than the embedding.
    """
    hidden = parts.get_hidden(context)
    norm = parts.make_plain(context, "norm.weight", "norm", hidden)
    if is_tied(context.config, tied=tied) and context.ranks.pp == 1:
        return (norm,)
    width = 4 if cfg.get_flag(context.arguments, "enable_fp32_lm_head") else 0
    rows = get_vocabulary(context, context.ranks.head)
    return norm, parts.make_plain(context, "lm_head.weight", "head", rows * hidden, width)


def is_tied(config: cfg.Config, *, tied: bool) -> bool:
    """Tell whether output head and embedding are one matrix; `tied` is the family's default."""
    for data in (config.text, config.whole):
        if "tie_word_embeddings" in data:
            return cfg.get_flag(data, "tie_word_embeddings")
    return tied


def make_rope(context: parts.Context) -> tuple[Param, ...]:
    """Return the rotary cache: one fp32 cosine and sine per position and rotary dimension, on every rank.

    Measured with the DeepSeek-V2 shape of the offload recordings: 163840 positions x 64 x 4 bytes.
    """
    config = context.config
    width = cfg.find(config, "qk_rope_head_dim")
    if not width and cfg.find(config, *cfg.HEAD_KEYS):
        factor = cfg.get_float(config.text, "partial_rotary_factor", 1.0)
        width = int(cfg.get_head_dim(config) * min(factor, 1.0))
    return (Param("rotary_emb.cos_sin_cache", "buffer", count_positions(config) * width * 4, "fp32"),)


def count_positions(config: cfg.Config) -> int:
    """Return the positions of the rotary cache: YaRN's cover the stretched original length."""
    scaling = cfg.get_map(config.text, "rope_scaling", "rope_parameters")
    length = cfg.find(config, "max_position_embeddings", "n_positions", default=2048)
    factor = cfg.get_float(scaling, "factor", 1.0)
    kind = cfg.get_text(scaling, "rope_type", "type")
    if "yarn" in kind:
        return int((cfg.get_int(scaling, "original_max_position_embeddings") or length) * max(1.0, factor))
    return int(length * max(1.0, factor)) if kind in {"linear", "dynamic"} else length


def find_towers(config: cfg.Config) -> Iterator[Mapping[str, object]]:
    """Yield the configs of the image and audio towers; Qwen-Omni has them beside its language model."""
    for data in (config.whole, cfg.get_map(config.whole, "thinker_config")):
        for names in (("vision_config", "visual", "vit_config"), ("audio_config",)):
            tower = cfg.get_map(data, *names)
            if tower:
                yield tower


def has_vision(config: cfg.Config) -> bool:
    """Tell whether the model also has an image or audio tower."""
    return any(True for _ in find_towers(config))


def make_vision(config: cfg.Config) -> tuple[Param, ...]:
    """Return the towers as one 16-bit block, whole on every rank (an upper bound: some are divided)."""
    elements = sum(map(count_tower, find_towers(config)))
    return (Param("visual", "vision", 2 * elements, "bf16"),) if elements else ()


def count_tower(tower: Mapping[str, object]) -> int:
    """Return the elements of a tower's layers, 0 when its config has an unknown form.

    Qwen2-VL calls the tower's own width embed_dim, and that of what it hands on hidden_size.
    """
    depth = cfg.get_int(tower, "depth", "num_hidden_layers", "layers", "num_layers", "encoder_layers") or 0
    hidden = cfg.get_int(tower, "embed_dim", "hidden_size", "width", "d_model") or 0
    width = cfg.get_int(tower, "intermediate_size", "encoder_ffn_dim") or 4 * hidden
    return min(depth, cfg.MAX_LAYERS) * (4 * hidden * hidden + 2 * hidden * width)


def make_draft(context: parts.Context, family: parts.Family) -> tuple[Layer, ...]:
    """Return the checkpoint's own draft layers when the launch speculates with them."""
    arguments = context.arguments
    count = cfg.find(context.config, "num_nextn_predict_layers", "mtp_num_hidden_layers", "num_mtp_layers")
    own = cfg.get_text(arguments, "speculative_algorithm").upper() in OWN_DRAFT
    path = cfg.get_text(arguments, "speculative_draft_model_path", "speculative_draft_model")
    if not own or (path and path != cfg.get_text(arguments, "model_path")):
        return ()
    start = cfg.count_layers(context.config)
    return tuple(make_draft_layer(context, family, start + number) for number in range(min(count, 16)))


def make_draft_layer(context: parts.Context, family: parts.Family, number: int) -> Layer:
    """Return one draft layer: a decoder layer and the projection of embedding and hidden state into it."""
    hidden = parts.get_hidden(context)
    layer = family.build_layer(context, number)
    projection = parts.make_plain(context, "eh_proj.weight", "dense", 2 * hidden * hidden)
    return layer._replace(params=(projection, *layer.params))

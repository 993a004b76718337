"""Which part of a model a checkpoint's tensor belongs to, from its name alone."""

from __future__ import annotations

NO_LAYER = -1

LAYER_WORDS = frozenset({"layers", "layer", "h", "blk", "blocks", "block"})
VISION_WORDS = frozenset(
    {
        "visual",
        "vision",
        "vision_model",
        "vision_tower",
        "vision_encoder",
        "vision_embed_tokens",
        "vit",
        "vit_model",
        "image_newline",
        "multi_modal_projector",
        "mm_projector",
        "mlp1",
        "aligner",
        "connector",
        "audio",
        "audio_tower",
        "audio_model",
        "embed_audio",
        "embed_vision",
    }
)
DRAFT_WORDS = frozenset({"mtp", "nextn", "mtp_layers", "model_mtp"})
EMBEDDING_WORDS = frozenset({"embed_tokens", "token_embd", "wte", "word_embeddings", "tok_embeddings", "embed"})
HEAD_WORDS = frozenset({"lm_head", "output", "embed_out", "head"})
ROUTER_WORDS = frozenset({"gate", "router", "ffn_gate_inp", "e_score_correction_bias", "expert_bias", "wg"})
ATTENTION_PREFIXES = (
    "self_attn",
    "attn",
    "attention",
    "self_attention",
    "linear_attn",
    "mamba",
    "ssm",
    "conv",
)
DENSE_WORDS = frozenset({"mlp", "ffn", "feed_forward", "fc1", "fc2", "c_fc", "c_proj"})
DENSE_PREFIXES = ("gate_proj", "up_proj", "down_proj", "gate_up_proj", "ffn_")


def classify(name: str) -> tuple[int, str]:
    """Return the layer number (NO_LAYER when outside the layers) and the part, "" for a whole layer.

    Parts are those of `Param`, and "draft" for multi-token-prediction modules.
    """
    words = name.lower().split(".")
    at = find_layer(words)
    outside = words if at is None else words[:at]
    layer = NO_LAYER if at is None else int(words[at + 1])
    if not VISION_WORDS.isdisjoint(outside):
        return NO_LAYER, "vision"
    if not DRAFT_WORDS.isdisjoint(outside):
        return NO_LAYER, "draft"
    rest = words if at is None else words[at + 2 :]
    return layer, classify_words(rest) if rest else ""


def find_layer(words: list[str]) -> int | None:
    """Return where "layers", "<number>" begins, or None."""
    for at, word in enumerate(words[:-1]):
        following = words[at + 1]
        if word in LAYER_WORDS and following.isdecimal() and len(following) < 6:
            return at
    return None


def classify_words(words: list[str]) -> str:
    """Return the part for the words of a name inside a layer or outside all of them."""
    text = ".".join(words)
    if "shared_expert" in text or "shared_mlp" in text or "_shexp" in text:
        return "shared"
    if "experts" in words or "_exps" in text:
        return "experts"
    if not ROUTER_WORDS.isdisjoint(words):
        return "router"
    if "norm" in text or any(word.startswith("ln_") for word in words):
        return "norm"
    return classify_matrix(words)


def classify_matrix(words: list[str]) -> str:
    """Return the part of a name that is no expert, router or norm."""
    if not EMBEDDING_WORDS.isdisjoint(words):
        return "embedding"
    if not HEAD_WORDS.isdisjoint(words):
        return "head"
    if any(word.startswith(DENSE_PREFIXES) for word in words) or not DENSE_WORDS.isdisjoint(words):
        return "dense"
    if any(word.startswith(ATTENTION_PREFIXES) for word in words) or "mixer" in words:
        return "attention"
    return "attention" if {"q_proj", "k_proj", "v_proj", "qkv_proj", "o_proj"} & set(words) else "other"

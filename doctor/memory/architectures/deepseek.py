"""DeepSeek V2, V3, V3.2 and the models built on them: latent attention (MLA), routed and shared experts."""

from __future__ import annotations

from doctor.memory import config as cfg
from doctor.memory.architectures import parts
from doctor.memory.parallel import share
from doctor.memory.shapes import Cache, Layer, Param

# models/deepseek_v2.py and what inherits from it (0.5.23); only these support grouped offload.
NAMES = frozenset(
    {
        "DeepseekV2ForCausalLM",
        "DeepseekV3ForCausalLM",
        "DeepseekV32ForCausalLM",
        "GlmMoeDsaForCausalLM",
        "MistralLarge3ForCausalLM",
        "KimiK25ForConditionalGeneration",
        "KimiVLForConditionalGeneration",
        "DotsVLMForCausalLM",
        "DeepseekVL2ForCausalLM",
    }
)
TYPES = frozenset({"deepseek_v2", "deepseek_v3", "deepseek_v32", "kimi_k2", "glm_moe_dsa"})

# Sparse attention (DSA) keeps a 128-wide fp8 key and one fp32 scale per token, and with fp8 KV the latent as
# 512 fp8 + 4 fp32 scales + 64 bf16 rope values (DSATokenToKVPool, calculate_mla_kv_cache_dim, 0.5.23).
DSA_INDEX_BYTES = 132
DSA_FP8_LATENT_BYTES = 656


def build_layer(context: parts.Context, layer: int) -> Layer:
    """Return one decoder layer; the first ones, and those off the moe_layer_freq grid, are dense."""
    config = context.config
    mlp = (
        make_sparse(context, layer)
        if is_sparse(config, layer)
        else parts.make_mlp(context, layer, cfg.need(config, "intermediate_size"))
    )
    params = (*make_attention(context, layer), *mlp, *parts.make_norms(context))
    return Layer(layer, params, make_cache(context))


def is_sparse(config: cfg.Config, layer: int) -> bool:
    """Tell whether this layer has experts."""
    first = cfg.find(config, "first_k_dense_replace")
    step = cfg.find(config, "moe_layer_freq", default=1)
    return cfg.find(config, "n_routed_experts") > 0 and layer >= first and layer % step == 0


def make_attention(context: parts.Context, layer: int) -> tuple[Param, ...]:
    """Return the projections of latent attention; the ones into the latent space are on every rank.

    SGLang also keeps kv_b_proj rearranged as w_kc and w_vc (deepseek_weight_loader.py post_load_weights).
    """
    config = context.config
    hidden = parts.get_hidden(context)
    heads = share(cfg.need(config, "num_attention_heads"), context.ranks.attention)
    rope = cfg.need(config, "qk_rope_head_dim")
    nope = cfg.need(config, "qk_nope_head_dim")
    value = cfg.find(config, "v_head_dim", default=nope)
    latent = cfg.need(config, "kv_lora_rank")
    absorbed = parts.make_linear(context, layer, "self_attn.kv_b_proj", "attention", (heads * (nope + value), latent))
    return (
        *make_query(context, layer, heads * (nope + rope), latent + rope),
        *absorbed,
        *parts.make_linear(context, layer, "self_attn.o_proj", "attention", (hidden, heads * value)),
        parts.make_plain(context, "self_attn.a_norms", "norm", latent + cfg.find(config, "q_lora_rank")),
        *make_indexer(context, layer),
        Param("self_attn.w_kc_w_vc", "buffer", absorbed[0].size, absorbed[0].dtype),
    )


def make_query(context: parts.Context, layer: int, rows: int, latent: int) -> tuple[Param, ...]:
    """Return the query projections (through a low rank when the model has one) and the latent projection."""
    hidden = parts.get_hidden(context)
    rank = cfg.find(context.config, "q_lora_rank")
    if not rank:
        return (
            *parts.make_linear(context, layer, "self_attn.q_proj", "attention", (rows, hidden)),
            *parts.make_linear(context, layer, "self_attn.kv_a_proj_with_mqa", "attention", (latent, hidden)),
        )
    name = "self_attn.fused_qkv_a_proj_with_mqa"
    return (
        *parts.make_linear(context, layer, name, "attention", (rank + latent, hidden)),
        *parts.make_linear(context, layer, "self_attn.q_b_proj", "attention", (rows, rank)),
    )


def make_indexer(context: parts.Context, layer: int) -> tuple[Param, ...]:
    """Return the indexer of sparse attention (V3.2), which is on every rank."""
    config = context.config
    heads, width = cfg.find(config, "index_n_heads"), cfg.find(config, "index_head_dim")
    if not heads or not width:
        return ()
    hidden = parts.get_hidden(context)
    rank = cfg.find(config, "q_lora_rank", default=hidden)
    return (
        *parts.make_linear(context, layer, "self_attn.indexer.wq_b", "attention", (heads * width, rank)),
        *parts.make_linear(context, layer, "self_attn.indexer.wk", "attention", (width, hidden)),
        parts.make_plain(context, "self_attn.indexer.weights_proj", "attention", heads * hidden),
    )


def make_sparse(context: parts.Context, layer: int) -> tuple[Param, ...]:
    """Return router, experts and shared experts; SGLang fuses the latter into the expert tensors of V3."""
    config = context.config
    count = cfg.need(config, "n_routed_experts")
    width = cfg.need(config, "moe_intermediate_size")
    shared = cfg.find(config, "n_shared_experts")
    if shared and is_fused(context, count, shared):
        count, shared = count + shared, 0
    return (
        parts.make_router(context, count),
        *parts.make_experts(context, layer, count, width),
        *(parts.make_mlp(context, layer, shared * width, part="shared") if shared else ()),
    )


def is_fused(context: parts.Context, count: int, shared: int) -> bool:
    """Tell whether the shared expert becomes one more routed expert (determine_num_fused_shared_experts).

    Only for the 256-expert V3 shape, without expert parallelism, unless it is switched off.
    """
    off = cfg.get_flag(context.arguments, "disable_shared_experts_fusion")
    return not off and context.ranks.experts == 1 and (count, shared) == (256, 1)


def make_cache(context: parts.Context) -> Cache:
    """Return the latent that every rank keeps whole, and the index key of sparse attention."""
    config = context.config
    elements = cfg.need(config, "kv_lora_rank") + cfg.need(config, "qk_rope_head_dim")
    if not cfg.find(config, "index_head_dim"):
        return Cache("latent", elements=elements)
    if cfg.get_text(context.arguments, "kv_cache_dtype").startswith("fp8"):
        return Cache("latent", fixed=DSA_FP8_LATENT_BYTES + DSA_INDEX_BYTES)
    return Cache("latent", elements=elements, fixed=DSA_INDEX_BYTES)


FAMILY = parts.Family(NAMES, TYPES, build_layer, grouped_offload=True)

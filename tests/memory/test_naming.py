import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from doctor.memory.naming import NO_LAYER, classify


@pytest.mark.parametrize(
    ("name", "where"),
    [
        ("model.embed_tokens.weight", (NO_LAYER, "embedding")),
        ("model.language_model.embed_tokens.weight", (NO_LAYER, "embedding")),
        ("lm_head.weight", (NO_LAYER, "head")),
        ("model.norm.weight", (NO_LAYER, "norm")),
        ("model.layers.3.self_attn.q_proj.weight", (3, "attention")),
        ("model.layers.3.self_attn.q_norm.weight", (3, "norm")),
        ("model.layers.3.self_attn.kv_a_proj_with_mqa.weight_scale_inv", (3, "attention")),
        ("model.layers.10.mlp.gate_proj.weight", (10, "dense")),
        ("model.layers.10.mlp.gate.weight", (10, "router")),
        ("model.layers.10.mlp.gate.e_score_correction_bias", (10, "router")),
        ("model.layers.10.mlp.experts.7.up_proj.weight", (10, "experts")),
        ("model.layers.10.mlp.experts.gate_up_proj_blocks", (10, "experts")),
        ("model.layers.10.mlp.shared_experts.up_proj.weight", (10, "shared")),
        ("model.layers.10.mlp.shared_expert_gate.weight", (10, "shared")),
        ("model.layers.2.block_sparse_moe.experts.0.w1.weight", (2, "experts")),
        ("model.layers.2.block_sparse_moe.gate.weight", (2, "router")),
        ("model.layers.2.linear_attn.in_proj_qkvz.weight", (2, "attention")),
        ("backbone.layers.5.mixer.in_proj.weight", (5, "attention")),
        ("backbone.layers.5.mixer.up_proj.weight", (5, "dense")),
        ("visual.blocks.1.attn.qkv.weight", (NO_LAYER, "vision")),
        ("vision_tower.vision_model.encoder.layers.0.mlp.fc1.weight", (NO_LAYER, "vision")),
        ("model.visual.merger.mlp.0.weight", (NO_LAYER, "vision")),
        ("mtp.layers.0.self_attn.q_proj.weight", (NO_LAYER, "draft")),
        ("blk.4.attn_q.weight", (4, "attention")),
        ("blk.4.attn_norm.weight", (4, "norm")),
        ("blk.4.ffn_gate_exps.weight", (4, "experts")),
        ("blk.4.ffn_gate_shexp.weight", (4, "shared")),
        ("blk.4.ffn_gate_inp.weight", (4, "router")),
        ("blk.4.ffn_down.weight", (4, "dense")),
        ("token_embd.weight", (NO_LAYER, "embedding")),
        ("output.weight", (NO_LAYER, "head")),
        ("transformer.h.6.attn.c_attn.weight", (6, "attention")),
        ("model.layers.7", (7, "")),
        ("self_attn", (NO_LAYER, "attention")),
        ("something.else", (NO_LAYER, "other")),
    ],
)
def test_classify_of_published_names(name, where):
    assert classify(name) == where


@settings(deadline=None)
@given(st.text(max_size=80))
def test_classify_of_any_name_is_total(name):
    layer, part = classify(name)
    assert layer >= NO_LAYER
    assert isinstance(part, str)

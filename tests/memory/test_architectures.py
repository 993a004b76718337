"""Parameter bytes against the sizes that the published checkpoints state in their safetensors metadata."""

import pytest

from doctor.memory import config as cfg
from doctor.memory.architectures import parts
from doctor.memory.build import choose_family, count_positions, list_families
from doctor.memory.kv import measure_cell
from doctor.memory.parallel import resolve_ranks
from doctor.memory.weights import get_whole_stage

from .helpers import LLAMA, build, sum_model
from .published import (
    FALCON,
    FP8,
    GRANITE,
    KIMI_LINEAR,
    LFM2,
    LONGCAT,
    MIMO,
    PUBLISHED,
    QWEN2_VL,
    QWEN_NEXT,
    V3,
    shape,
)


@pytest.mark.parametrize(("data", "published"), [row[1:] for row in PUBLISHED], ids=[row[0] for row in PUBLISHED])
def test_model_has_its_published_size(data, published):
    computed = sum(sum_model(build(data, disable_shared_experts_fusion=True)).values())
    assert computed == pytest.approx(published, rel=0.003)


@pytest.mark.parametrize("data", [row[1] for row in PUBLISHED], ids=[row[0] for row in PUBLISHED])
def test_published_architectures_are_known(data):
    assert choose_family(cfg.make_config(data)).known


@pytest.mark.parametrize("tp", [2, 4, 8])
def test_ranks_together_hold_the_model(tp):
    """What is divided adds up; norms and routers are on every rank."""
    data = shape(
        "Qwen3MoeForCausalLM", 2048, 6144, 4, 32, 8, 1024, head_dim=128, moe_intermediate_size=768, num_experts=128
    )
    whole, one = sum_model(build(data)), sum_model(build(data, tp_size=tp))
    for part in ("attention", "experts", "embedding", "head"):
        assert tp * one[part] == whole[part]
    assert one["router"] == whole["router"]


def test_key_heads_are_repeated_when_there_are_fewer_than_ranks():
    data = shape("LlamaForCausalLM", 1024, 4096, 2, 8, 2, 1024)
    eight = measure_cell(build(data, tp_size=8), get_whole_stage(build(data)), 16)
    two = measure_cell(build(data, tp_size=2), get_whole_stage(build(data)), 16)
    assert eight.full == two.full


def test_expert_parallelism_divides_experts_as_tensor_parallelism_does():
    by_tensor, by_expert = build(V3, tp_size=8), build(V3, tp_size=8, ep_size=8, disable_shared_experts_fusion=True)
    assert sum_model(by_tensor)["experts"] == pytest.approx(sum_model(by_expert)["experts"], rel=0.005)


def test_shared_expert_of_v3_is_fused_into_the_experts_unless_switched_off():
    fused, apart = sum_model(build(V3, tp_size=8)), sum_model(build(V3, tp_size=8, disable_shared_experts_fusion=True))
    assert "shared" not in fused
    assert sum(fused.values()) == pytest.approx(sum(apart.values()), rel=0.001)


def test_attention_dp_keeps_attention_whole():
    whole = sum_model(build(V3))
    assert sum_model(build(V3, tp_size=8, dp_size=8, enable_dp_attention=True))["attention"] == whole["attention"]


def test_own_draft_layers_count_only_when_the_launch_speculates():
    data = V3 | {"num_nextn_predict_layers": 1}
    assert build(data).draft == ()
    drafts = build(data, tp_size=8, speculative_algorithm="EAGLE", model_path="m").draft
    assert [layer.number for layer in drafts] == [61]


def test_a_draft_of_its_own_is_not_built_from_the_model():
    data = V3 | {"num_nextn_predict_layers": 1}
    assert build(data, speculative_algorithm="EAGLE", speculative_draft_model_path="other", model_path="m").draft == ()


def test_tied_head_on_another_stage_needs_a_copy():
    data = LLAMA | {"tie_word_embeddings": True}
    assert len(build(data).last) == 1
    assert len(build(data, pp_size=2).last) == 2


def test_sparse_attention_adds_index_keys_and_packs_fp8():
    data = V3 | {"architectures": ["DeepseekV32ForCausalLM"], "index_n_heads": 64, "index_head_dim": 128}
    stage = get_whole_stage(build(data))
    assert measure_cell(build(data), stage, 16).full == 61 * (576 * 2 + 132)
    assert measure_cell(build(data, kv_cache_dtype="fp8_e4m3"), stage, 8).full == 61 * (656 + 132)


def test_states_of_qwen_next_follow_the_state_dtype():
    stage = get_whole_stage(build(QWEN_NEXT))
    full = measure_cell(build(QWEN_NEXT), stage, 16)
    # Per layer: 8192 channels x 3 columns in 16 bits and 32 heads of 128 x 128 in fp32.
    assert full.state == 36 * (8192 * 3 * 2 + 32 * 128 * 128 * 4)
    half = measure_cell(build(QWEN_NEXT, mamba_ssm_dtype="bfloat16"), stage, 16)
    assert half.state == 36 * (8192 * 3 * 2 + 32 * 128 * 128 * 2)


@pytest.mark.parametrize(
    ("data", "full", "window", "state"),
    [
        # 7 layers of MLA; 20 with three convolutions of 4096 channels and 32 heads of 128 x 128
        (KIMI_LINEAR, 7 * 576 * 2, 0, 20 * (3 * 4096 * 3 * 2 + 32 * 128 * 128 * 4)),
        # two latents in each of 28 layers
        (LONGCAT, 28 * 2 * 576 * 2, 0, 0),
        # one full layer of 4 key heads, 47 with a window and 8, keys 192 and values 128 wide
        (MIMO, 4 * 320 * 2, 47 * 8 * 320 * 2, 0),
        # attention in 4 of 40 layers, Mamba-2 in the others: 8448 channels, 128 heads of 64 x 128
        (GRANITE, 4 * 2 * 8 * 128 * 2, 0, 36 * (8448 * 3 * 2 + 128 * 64 * 128 * 4)),
        # both in each of 44 layers
        (FALCON, 44 * 2 * 2 * 128 * 2, 0, 44 * (3584 * 3 * 2 + 24 * 128 * 256 * 4)),
        (LFM2, 6 * 2 * 8 * 64 * 2, 0, 10 * 2048 * 2 * 2),
    ],
)
def test_measure_cell_of_mixed_layers(data, full, window, state):
    cell = measure_cell(build(data), get_whole_stage(build(data)), 16)
    assert (cell.full, cell.window, cell.state) == (full, window, state)


@pytest.mark.parametrize("data", [KIMI_LINEAR, LONGCAT, GRANITE, FALCON, LFM2, MIMO])
def test_ranks_hold_their_share_of_mixed_layers(data):
    whole, one = sum_model(build(data)), sum_model(build(data, tp_size=2))
    assert sum(one.values()) == pytest.approx(sum(whole.values()) / 2, rel=0.03)


def test_small_granite_has_a_dense_layer():
    assert "experts" not in sum_model(build(GRANITE | {"num_local_experts": 0}))


def test_starcoder_has_two_matrices_in_its_mlp():
    data = shape("Starcoder2ForCausalLM", 64, 256, 1, 4, 2, 128, use_bias=True)
    assert sum_model(build(data))["dense"] == 2 * (2 * 64 * 256 + 256 + 64)


def test_towers_are_found_beside_the_language_model_too():
    inside = {"thinker_config": {"text_config": LLAMA, "vision_config": {"depth": 1, "hidden_size": 8}}}
    audio = {"audio_config": {"encoder_layers": 1, "d_model": 8, "encoder_ffn_dim": 16}}
    vision = 2 * (4 * 8 * 8 + 2 * 8 * 32)
    assert sum_model(build(inside))["vision"] == vision
    assert sum_model(build(LLAMA | audio))["vision"] == 2 * (4 * 8 * 8 + 2 * 8 * 16)
    assert sum_model(build(QWEN2_VL))["vision"] == 2 * 32 * 12 * 1280 * 1280


def test_command_r_shares_its_embedding_without_saying_so():
    data = {key: value for key, value in LLAMA.items() if key != "tie_word_embeddings"}
    assert "head" not in sum_model(build(data | {"architectures": ["CohereForCausalLM"]}))


def test_sizes_that_differ_from_layer_to_layer_are_no_size():
    data = LLAMA | {"architectures": ["HunYuanMoEV1ForCausalLM"], "num_experts": 4, "moe_intermediate_size": [8, 16]}
    with pytest.raises(cfg.MissingSizeError, match="moe_intermediate_size"):
        build(data)


def test_deepseek_v4_compresses_by_the_ratio_of_each_layer():
    data = {
        "architectures": ["DeepseekV4ForCausalLM"], "torch_dtype": "bfloat16", "expert_dtype": "fp4",
        "hidden_size": 4096, "head_dim": 512, "qk_rope_head_dim": 64, "moe_intermediate_size": 2048,
        "n_routed_experts": 256, "n_shared_experts": 1, "num_hidden_layers": 3, "num_attention_heads": 64,
        "q_lora_rank": 1024, "o_groups": 8, "o_lora_rank": 1024, "index_n_heads": 64, "index_head_dim": 128,
        "sliding_window": 128, "vocab_size": 129280, "compress_ratios": [0, 4, 128], "quantization_config": FP8,
    }  # fmt: skip
    model = build(data)
    cell = measure_cell(model, get_whole_stage(model), 16)
    assert cell.full == pytest.approx((584 + 132) / 4 + 584 / 128)
    assert cell.ratio == 0.1
    assert cell.reserved == 128 * 2 * 512 * 4


def test_an_unknown_architecture_is_built_from_its_sizes():
    data = LLAMA | {"architectures": ["BrandNewForCausalLM"]}
    choice = choose_family(cfg.make_config(data))
    assert (choice.known, choice.name) == (False, "BrandNewForCausalLM")
    assert sum_model(build(data)) == sum_model(build(LLAMA))


@pytest.mark.parametrize(
    "more",
    [
        {"num_experts": 8, "moe_intermediate_size": 32},
        {"n_routed_experts": 8, "moe_intermediate_size": 32, "n_shared_experts": 1},
        {
            "kv_lora_rank": 32,
            "qk_rope_head_dim": 8,
            "qk_nope_head_dim": 16,
            "n_routed_experts": 4,
            "moe_intermediate_size": 8,
        },
    ],
)
def test_an_unknown_sparse_or_latent_architecture_is_built_from_its_sizes(more):
    assert sum_model(build(LLAMA | {"architectures": ["New"]} | more))["experts"] > 0


def test_choose_family_by_model_type_when_the_name_is_new():
    data = {**LLAMA, "architectures": ["NewVLForConditionalGeneration"], "model_type": "qwen3"}
    assert choose_family(cfg.make_config(data)).known


def test_every_architecture_belongs_to_one_family():
    names = [name for family in list_families() for name in family.names]
    kinds = [kind for family in list_families() for kind in family.types]
    assert len(names) == len(set(names))
    assert len(kinds) == len(set(kinds))


def test_a_missing_size_is_reported_by_name():
    data = {key: value for key, value in LLAMA.items() if key != "vocab_size"}
    with pytest.raises(cfg.MissingSizeError, match="vocab_size"):
        build(data)


@pytest.mark.parametrize(
    ("data", "positions"),
    [
        ({"max_position_embeddings": 4096}, 4096),
        (
            {
                "max_position_embeddings": 4096,
                "rope_scaling": {"type": "yarn", "factor": 40, "original_max_position_embeddings": 4096},
            },
            163840,
        ),
        ({"max_position_embeddings": 4096, "rope_scaling": {"type": "linear", "factor": 4}}, 16384),
        ({"max_position_embeddings": 131072, "rope_scaling": {"rope_type": "llama3", "factor": 8}}, 131072),
    ],
)
def test_count_positions_of_the_rotary_table(data, positions):
    assert count_positions(cfg.make_config(data)) == positions


def test_get_heads_without_key_heads_means_one_per_query_head():
    assert parts.get_heads(cfg.make_config({"num_attention_heads": 8, "hidden_size": 64})) == (8, 8, 8, 0)


def test_redundant_experts_are_added_before_the_division():
    data = shape("Qwen3MoeForCausalLM", 256, 512, 1, 8, 8, 128, moe_intermediate_size=64, num_experts=8)
    plain = sum_model(build(data, tp_size=4, ep_size=4))["experts"]
    assert sum_model(build(data, tp_size=4, ep_size=4, ep_num_redundant_experts=4))["experts"] == plain * 3 // 2


def test_resolve_ranks_of_the_helpers_default_is_one_gpu():
    assert resolve_ranks({}, "0.5.23").tp == 1


def test_lists_of_layers_are_read_as_far_as_layers_are_believed():
    """Every layer looks into the list; one of millions of entries would cost minutes."""
    far = {
        **KIMI_LINEAR,
        "linear_attn_config": {"kda_layers": [0] * cfg.MAX_LAYERS + [1], "num_heads": 1, "head_dim": 1},
    }
    assert [layer.cache.kind for layer in build(far).layers] == ["latent"] * 27
    sparse = shape(
        "Qwen3MoeForCausalLM", 64, 64, 1, 4, 4, 128, num_experts=2, mlp_only_layers=[9] * cfg.MAX_LAYERS + [0]
    )
    assert "experts" in sum_model(build(sparse))

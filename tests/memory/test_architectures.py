"""Parameter bytes against the sizes that the published checkpoints state in their safetensors metadata."""

import pytest

from doctor.memory import config as cfg
from doctor.memory.architectures import parts
from doctor.memory.build import choose_family, count_positions, list_families
from doctor.memory.kv import measure_cell
from doctor.memory.parallel import resolve_ranks
from doctor.memory.weights import get_whole_stage

from .helpers import LLAMA, build, sum_model

BF16 = {"torch_dtype": "bfloat16", "tie_word_embeddings": False}
FP8 = {"quant_method": "fp8", "weight_block_size": [128, 128]}


def shape(architecture, hidden, wide, layers, heads, keys, vocab, **more):  # noqa: PLR0917 - the six sizes of every model
    return {
        "architectures": [architecture],
        "hidden_size": hidden,
        "intermediate_size": wide,
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "num_key_value_heads": keys,
        "vocab_size": vocab,
        **BF16,
        **more,
    }


DEEPSEEK = {
    "moe_layer_freq": 1,
    "kv_lora_rank": 512,
    "qk_rope_head_dim": 64,
    "qk_nope_head_dim": 128,
    "v_head_dim": 128,
}
V3 = shape(
    "DeepseekV3ForCausalLM",
    7168,
    18432,
    61,
    128,
    128,
    129280,
    moe_intermediate_size=2048,
    n_routed_experts=256,
    n_shared_experts=1,
    num_experts_per_tok=8,
    first_k_dense_replace=3,
    q_lora_rank=1536,
    **DEEPSEEK,
)
GPT_OSS = shape(
    "GptOssForCausalLM",
    2880,
    2880,
    36,
    64,
    8,
    201088,
    head_dim=64,
    num_local_experts=128,
    sliding_window=128,
    layer_types=["sliding_attention", "full_attention"] * 18,
    quantization_config={"quant_method": "mxfp4", "modules_to_not_convert": ["model.layers.*.self_attn", "lm_head"]},
)
QWEN_NEXT = shape(
    "Qwen3NextForCausalLM",
    2048,
    5120,
    48,
    16,
    2,
    151936,
    head_dim=256,
    moe_intermediate_size=512,
    shared_expert_intermediate_size=512,
    num_experts=512,
    linear_num_key_heads=16,
    linear_key_head_dim=128,
    linear_num_value_heads=32,
    linear_value_head_dim=128,
    full_attention_interval=4,
)
NEMOTRON = shape(
    "NemotronHForCausalLM",
    4480,
    15680,
    56,
    40,
    8,
    131072,
    head_dim=128,
    mamba_num_heads=128,
    mamba_head_dim=80,
    n_groups=8,
    ssm_state_size=128,
    hybrid_override_pattern="M-M-M-MM-M-M-M*-M-M-M*-M-M-M-M*-M-M-M-M*-M-MM-M-M-M-M-M-",
)
GEMMA3 = {
    "architectures": ["Gemma3ForConditionalGeneration"],
    "torch_dtype": "bfloat16",
    "vision_config": {"hidden_size": 1152, "intermediate_size": 4304, "num_hidden_layers": 27},
    "text_config": {
        "model_type": "gemma3_text", "hidden_size": 5376, "intermediate_size": 21504, "num_hidden_layers": 62,
        "num_attention_heads": 32, "num_key_value_heads": 16, "head_dim": 128, "vocab_size": 262208,
        "sliding_window": 1024,
    },
}  # fmt: skip
LLAMA4 = {
    "architectures": ["Llama4ForConditionalGeneration"],
    "torch_dtype": "bfloat16",
    "vision_config": {"hidden_size": 1408, "intermediate_size": 5632, "num_hidden_layers": 34},
    "text_config": {
        "model_type": "llama4_text", "hidden_size": 5120, "intermediate_size": 8192, "intermediate_size_mlp": 16384,
        "num_local_experts": 16, "interleave_moe_layer_step": 1, "num_hidden_layers": 48, "num_attention_heads": 40,
        "num_key_value_heads": 8, "head_dim": 128, "vocab_size": 202048,
    },
}  # fmt: skip

# Model, config, published parameters (two bytes each) or, for quantized ones, bytes. DeepSeek-V3's are its
# 671 026 million parameters at one byte, two in embedding and head, and their scales; GLM's leave the draft out.
PUBLISHED = [
    ("Llama-3.1-8B", shape("LlamaForCausalLM", 4096, 14336, 32, 32, 8, 128256), 2 * 8_030_261_248),
    ("Llama-3.1-70B", shape("LlamaForCausalLM", 8192, 28672, 80, 64, 8, 128256), 2 * 70_553_706_496),
    ("Qwen2.5-7B", shape("Qwen2ForCausalLM", 3584, 18944, 28, 28, 4, 152064), 2 * 7_615_616_512),
    ("Qwen3-8B", shape("Qwen3ForCausalLM", 4096, 12288, 36, 32, 8, 151936, head_dim=128), 2 * 8_190_735_360),
    (
        "Qwen3-0.6B",
        shape("Qwen3ForCausalLM", 1024, 3072, 28, 16, 8, 151936, head_dim=128) | {"tie_word_embeddings": True},
        2 * 596_049_920,
    ),
    (
        "Qwen3-30B-A3B",
        shape("Qwen3MoeForCausalLM", 2048, 6144, 48, 32, 4, 151936, head_dim=128, moe_intermediate_size=768, num_experts=128),
        2 * 30_532_122_624,
    ),
    (
        "Qwen3-235B-A22B",
        shape("Qwen3MoeForCausalLM", 4096, 12288, 94, 64, 4, 151936, head_dim=128, moe_intermediate_size=1536, num_experts=128),
        2 * 235_093_634_560,
    ),
    (
        "Qwen1.5-MoE-A2.7B",
        shape(
            "Qwen2MoeForCausalLM", 2048, 5632, 24, 16, 16, 151936, moe_intermediate_size=1408, num_experts=60,
            shared_expert_intermediate_size=5632,
        ),
        2 * 14_315_784_192,
    ),
    ("Mixtral-8x7B", shape("MixtralForCausalLM", 4096, 14336, 32, 32, 8, 32000, num_local_experts=8), 2 * 46_702_792_704),
    (
        "DeepSeek-V2-Lite",
        shape(
            "DeepseekV2ForCausalLM", 2048, 10944, 27, 16, 16, 102400, moe_intermediate_size=1408, n_routed_experts=64,
            n_shared_experts=2, first_k_dense_replace=1, q_lora_rank=None, **DEEPSEEK,
        ),
        2 * 15_706_484_224,
    ),
    ("DeepSeek-V3", V3 | {"quantization_config": FP8}, 673_150_000_000),
    ("gemma-3-27b", GEMMA3, 2 * 27_432_406_640),
    ("gpt-oss-120b", GPT_OSS, 65_250_000_000),
    ("Qwen3-Next-80B-A3B", QWEN_NEXT, 2 * 79_674_391_296),
    (
        "GLM-4.5-Air",
        shape(
            "Glm4MoeForCausalLM", 4096, 10944, 46, 96, 8, 151552, head_dim=128, moe_intermediate_size=1408,
            n_routed_experts=128, n_shared_experts=1, first_k_dense_replace=1, attention_bias=True,
        ),
        2 * 106_850_000_000,
    ),
    ("Llama-4-Scout", LLAMA4, 2 * 108_641_793_536),
    ("Nemotron-Nano-9B-v2", NEMOTRON, 2 * 8_888_227_328),
    (
        "Llama-3-70B AWQ",
        shape("LlamaForCausalLM", 8192, 28672, 80, 64, 8, 128256)
        | {"quantization_config": {"quant_method": "awq", "bits": 4, "group_size": 128}},
        39_770_000_000,
    ),
]  # fmt: skip


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

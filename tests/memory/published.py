"""Configs of published models, and the sizes that their safetensors metadata states."""

TIED = {"tie_word_embeddings": True}
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
    "DeepseekV3ForCausalLM", 7168, 18432, 61, 128, 128, 129280, moe_intermediate_size=2048, n_routed_experts=256,
    n_shared_experts=1, num_experts_per_tok=8, first_k_dense_replace=3, q_lora_rank=1536, **DEEPSEEK,
)  # fmt: skip
GPT_OSS = shape(
    "GptOssForCausalLM", 2880, 2880, 36, 64, 8, 201088, head_dim=64, num_local_experts=128, sliding_window=128,
    layer_types=["sliding_attention", "full_attention"] * 18, quantization_config={"quant_method": "mxfp4",
    "modules_to_not_convert": ["model.layers.*.self_attn", "lm_head"]},
)  # fmt: skip
QWEN_NEXT = shape(
    "Qwen3NextForCausalLM", 2048, 5120, 48, 16, 2, 151936, head_dim=256, moe_intermediate_size=512,
    shared_expert_intermediate_size=512, num_experts=512, linear_num_key_heads=16, linear_key_head_dim=128,
    linear_num_value_heads=32, linear_value_head_dim=128, full_attention_interval=4,
)  # fmt: skip
NEMOTRON = shape(
    "NemotronHForCausalLM", 4480, 15680, 56, 40, 8, 131072, head_dim=128, mamba_num_heads=128, mamba_head_dim=80,
    n_groups=8, ssm_state_size=128,
    hybrid_override_pattern="M-M-M-MM-M-M-M*-M-M-M*-M-M-M-M*-M-M-M-M*-M-MM-M-M-M-M-M-",
)  # fmt: skip
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

LFM2 = shape("Lfm2ForCausalLM", 2048, 12288, 16, 32, 8, 65536, block_ff_dim=12288) | {
    "layer_types": ["conv", "conv", "full_attention"] * 2 + ["conv", "full_attention"] * 4 + ["conv", "conv"],
    "block_multiple_of": 256, "conv_L_cache": 3, "tie_word_embeddings": True,
}  # fmt: skip
GRANITE = shape(
    "GraniteMoeHybridForCausalLM", 4096, 768, 40, 32, 8, 100352, num_local_experts=72,
    shared_intermediate_size=1536, layer_types=["mamba", "mamba", "mamba", "mamba", "mamba", "attention", "mamba",
    "mamba", "mamba", "mamba"] * 4, mamba_n_heads=128, mamba_d_head=64, mamba_d_state=128, mamba_n_groups=1,
)  # fmt: skip
FALCON = shape(
    "FalconH1ForCausalLM", 3072, 12288, 44, 12, 2, 130049,
    head_dim=128, mamba_n_heads=24, mamba_d_head=128, mamba_d_state=256, mamba_n_groups=1,
)  # fmt: skip
KIMI_LINEAR = shape(
    "KimiLinearForCausalLM", 2304, 9216, 27, 32, 32, 163840, num_experts=256, num_shared_experts=1,
    moe_intermediate_size=1024, first_k_dense_replace=1, **DEEPSEEK, linear_attn_config={
        "kda_layers": [layer for layer in range(1, 27) if layer % 4], "num_heads": 32, "head_dim": 128,
        "short_conv_kernel_size": 4,
    },
)  # fmt: skip
LONGCAT = {
    "architectures": ["LongcatFlashForCausalLM"], "hidden_size": 6144, "ffn_hidden_size": 12288,
    "expert_ffn_hidden_size": 2048, "num_layers": 28, "num_attention_heads": 64, "n_routed_experts": 512,
    "zero_expert_num": 256, "vocab_size": 131072, "q_lora_rank": 1536, **DEEPSEEK, **BF16,
}  # fmt: skip
MIMO = shape(
    "MiMoV2FlashForCausalLM", 4096, 16384, 48, 64, 4, 152576, head_dim=192, v_head_dim=128,
    swa_num_key_value_heads=8, sliding_window=128, hybrid_layer_pattern=[0, *[1] * 47], n_routed_experts=256,
    moe_intermediate_size=2048, moe_layer_freq=[0, *[1] * 47],
)  # fmt: skip
CHATGLM = {
    "architectures": ["ChatGLMModel"], "hidden_size": 4096, "ffn_hidden_size": 13696, "num_layers": 40,
    "num_attention_heads": 32, "multi_query_group_num": 2, "kv_channels": 128, "padded_vocab_size": 151552,
    "add_qkv_bias": True, **BF16,
}  # fmt: skip
DBRX = {
    "architectures": ["DbrxForCausalLM"], "d_model": 6144, "n_heads": 48, "n_layers": 40, "vocab_size": 100352,
    "attn_config": {"kv_n_heads": 8}, "ffn_config": {"ffn_hidden_size": 10752, "moe_num_experts": 16}, **BF16,
}  # fmt: skip
QWEN2_VL = shape("Qwen2VLForConditionalGeneration", 3584, 18944, 28, 28, 4, 152064) | {
    "vision_config": {"depth": 32, "embed_dim": 1280, "hidden_size": 3584}
}

# As below; LongCat-Flash's and Kimi-Linear's leave nothing out.
HYBRID = [
    ("LFM2-1.2B", LFM2, 2 * 1_170_340_608),
    ("Granite-4.0-H-Small", GRANITE | TIED, 2 * 32_207_337_984),
    ("Falcon-H1-7B", FALCON, 2 * 7_585_654_784),
    ("Kimi-Linear-48B-A3B", KIMI_LINEAR, 2 * 49_122_681_728),
    ("LongCat-Flash", LONGCAT, 2 * 561_862_880_256),
]
OTHERS = [
    ("gemma-2-9b", shape("Gemma2ForCausalLM", 3584, 14336, 42, 16, 8, 256000, head_dim=256) | TIED, 2 * 9_241_705_984),
    ("phi-4", shape("Phi3ForCausalLM", 5120, 17920, 40, 40, 10, 100352), 2 * 14_659_507_200),
    ("aya-expanse-8b", shape("CohereForCausalLM", 4096, 14336, 32, 32, 8, 256000) | TIED, 2 * 8_028_033_024),
    ("Apertus-8B", shape("ApertusForCausalLM", 4096, 21504, 32, 32, 8, 131072), 2 * 8_053_338_176),
    ("glm-4-9b", CHATGLM, 2 * 9_399_951_392),
    ("DBRX", DBRX, 2 * 131_596_523_520),
    (
        "Hunyuan-A13B",
        shape(
            "HunYuanMoEV1ForCausalLM", 4096, 3072, 32, 32, 8, 128167, head_dim=128, num_experts=64,
            moe_intermediate_size=[3072] * 32, num_shared_expert=[1] * 32, moe_topk=[8] * 32,
        ) | TIED,
        2 * 80_393_183_232,
    ),
    (
        "ERNIE-4.5-21B-A3B",
        shape(
            "Ernie4_5_MoeForCausalLM", 2560, 12288, 28, 20, 4, 103424, head_dim=128, moe_num_experts=64,
            moe_intermediate_size=1536, moe_num_shared_experts=2, moe_layer_start_index=1,
        ) | TIED,
        2 * 21_825_437_888,
    ),
]  # fmt: skip

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
    *HYBRID,
    *OTHERS,
]  # fmt: skip

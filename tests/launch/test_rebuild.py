from __future__ import annotations

import pytest

from doctor.launch.flags import load_table
from doctor.launch.rebuild import rebuild_command

from .helpers import NEWEST

OLD = load_table("0.5.15.post1")

# What a server prints that was started with `--model-path /m` alone on one GPU, as far as it differs from the
# defaults: 0.5.15.post1 on an H200, and 0.5.23 without a GPU.
ON_GPU = {
    "model_path": "/m",
    "tokenizer_path": "/m",
    "mem_fraction_static": 0.897,
    "chunked_prefill_size": 8192,
    "page_size": 1,
    "load_balance_method": "round_robin",
    "device": "cuda",
    "random_seed": 566732408,
    "custom_sigquit_handler": None,
    "served_model_name": "/m",
    "attention_backend": "fa3",
    "sampling_backend": "flashinfer",
    "grammar_backend": "xgrammar",
    "cuda_graph_config": "CudaGraphConfig(decode=PhaseConfig(backend='full', max_bs=256, bs=[1, 2]))",
    "speculative_moe_runner_backend": "auto",
    "moe_runner_backend": "auto",
    "expert_distribution_recorder_buffer_size": 1000,
    "uses_mamba_radix_cache": False,
    "mm_process_config": {},
    "custom_weight_loader": [],
}
ON_CPU = {
    **ON_GPU,
    "device": "cpu",
    "mem_fraction_static": 0.716,
    "chunked_prefill_size": 4096,
    "attention_backend": "torch_native",
    "sampling_backend": "pytorch",
    "cuda_graph_config": {"decode": {"max_bs": 32, "bs": [1, 2]}},
    "swa_full_tokens_ratio": 0.8,
    "mamba_full_memory_ratio": 0.9,
    "hicache_ratio": 2.0,
    "enable_tf32_matmul": False,
    "watermark_config": "<redacted>",
    "boundary_reduction": "rs+rsv",
}


def test_rebuild_command_leaves_out_what_sglang_chose():
    assert rebuild_command(ON_GPU, OLD).text == "sglang serve --model-path /m"
    assert rebuild_command(ON_CPU, NEWEST).text == "sglang serve --model-path /m --device cpu"


@pytest.mark.parametrize(
    ("field", "value", "words"),
    [
        ("tp_size", 8, "--tp-size 8"),
        ("mem_fraction_static", 0.2, "--mem-fraction-static 0.2"),
        ("attention_backend", "triton", "--attention-backend triton"),
        ("sampling_backend", "pytorch", "--sampling-backend pytorch"),
        ("grammar_backend", "none", "--grammar-backend none"),
        ("watchdog_timeout", 20.0, "--watchdog-timeout 20"),
        ("trust_remote_code", True, "--trust-remote-code"),
        ("chunked_prefill_size", 1024, "--chunked-prefill-size 1024"),
        ("page_size", 64, "--page-size 64"),
        ("lora_strict_loading", True, "--lora-strict-loading"),
        ("cuda_graph_bs_decode", [1, 2, 3], "--cuda-graph-bs-decode 1 2 3"),
        ("served_model_name", "a b", "--served-model-name 'a b'"),
        ("api_key", "sk-123", "--api-key '<redacted>'"),
        ("ssl_keyfile_password", "x", "--ssl-keyfile-password '<redacted>'"),
        ("json_model_override_args", '{"a": 1}', "--json-model-override-args '{\"a\": 1}'"),
        ("preferred_sampling_params", {"top_p": 1}, "--preferred-sampling-params '{\"top_p\": 1}'"),
        (
            "lora_paths",
            ["LoRARef(lora_id='1', lora_name='a', lora_path='/p', pinned=False)"],
            "--lora-paths a=/p",
        ),
    ],
)
def test_rebuild_command_prints_what_the_user_asked_for(field, value, words):
    text = rebuild_command({**ON_GPU, field: value}, OLD).text
    assert words in text
    assert text.removeprefix("sglang serve --model-path /m").replace(words, "").strip() == ""


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("no_such_field", 1),
        ("tool_call_parser", None),
        ("uvicorn_access_log_exclude_prefixes", []),
        ("nccl_port", 28123),
        ("random_seed", 42),
    ],
)
def test_rebuild_command_leaves_out(field, value):
    assert rebuild_command({**ON_GPU, field: value}, OLD).text == "sglang serve --model-path /m"


def test_rebuild_command_takes_the_changed_half_of_a_pair_for_the_users():
    args = {"model_path": "m", "chunked_prefill_size": 8192, "cuda_graph_max_bs": 32}
    table = load_table("0.5.8")
    assert rebuild_command(args, table).text.endswith("--model-path m --cuda-graph-max-bs 32")
    args = {"model_path": "m", "chunked_prefill_size": 4096, "cuda_graph_max_bs": 512}
    assert rebuild_command(args, table).text.endswith("--model-path m --chunked-prefill-size 4096")


def test_rebuild_command_knows_what_speculation_and_deepseek_v4_bring():
    args = {
        "model_path": "deepseek-ai/DeepSeek-V4-Pro",
        "speculative_draft_model_path": "deepseek-ai/DeepSeek-V4-Pro",
        "attention_backend": "compressed",
        "device": "cuda",
        "page_size": 256,
        "kv_cache_dtype": "fp8_e4m3",
        "swa_full_tokens_ratio": 0.1,
        "max_running_requests": 256,
        "tp_size": 8,
        "trust_remote_code": True,
    }
    expected = "sglang serve --model-path deepseek-ai/DeepSeek-V4-Pro --trust-remote-code --tp-size 8"
    assert rebuild_command(args, load_table("0.5.12")).text.startswith(expected)


def test_rebuild_command_uses_the_entry_point_of_the_version():
    assert rebuild_command({"model_path": "m"}, load_table("0.5.8")).text.startswith("python3 -m sglang.launch_server")


def test_rebuild_command_puts_the_environment_in_front_without_secrets():
    command = rebuild_command({"model_path": "m"}, NEWEST, {"A": "b c", "HF_TOKEN": "hf_x"})
    assert command.text == "A='b c' HF_TOKEN='<redacted>' sglang serve --model-path m"

from __future__ import annotations

import pytest

from doctor.launch.check import MAX_PROBLEMS, check_command, load_validations
from doctor.launch.command import parse_command
from doctor.launch.flags import load_table
from doctor.launch.render import apply_edits

SERVE = "sglang serve m"


def check(text, version="0.5.23"):
    return check_command(parse_command(text), load_table(version))


def kinds(text, version="0.5.23"):
    return [(problem.kind, problem.flag) for problem in check(text, version)]


def corrected(text, version="0.5.23"):
    """Apply all fixes, a few times over: one may uncover the next."""
    table = load_table(version)
    for _ in range(4):
        problems = check_command(parse_command(text), table)
        text = apply_edits(parse_command(text), [edit for problem in problems for edit in problem.fixes], table)
    return text


@pytest.mark.parametrize(
    "text",
    [
        SERVE,
        "python3 -m sglang.launch_server --model-path m --tp 8 --context-length 128k",
        "sglang serve --model-type llm --model-path m --tp 2",
        "sglang serve $MODEL --tp $TP --port ${PORT}",
        "sglang serve <model> --tp <n>",
        "sglang serve --config x.yaml",
        "sglang serve --help",
        "sglang serve m --offload-group-size -1",
        "sglang serve m --cuda-graph-bs-decode 1 2 4",
        "sglang serve m --lora-paths a=/p b=/q",
        "~/bin/wrap serve --context 8192",
        "~/bin/wrap serve -- --tp 2",
        "CUDA_VISIBLE_DEVICES=0,1 sglang serve m --tp 2",
        "SGLANG_ENABLE_JIT_DEEPGEMM=0 NCCL_DEBUG=INFO MY_OWN=1 sglang serve m",
        "PYTORCH_ALLOC_CONF=expandable_segments:True,pinned_max_round_threshold_mb:16 sglang serve m",
        "sglang serve Qwen/Qwen3-8B --tool-call-parser qwen --reasoning-parser qwen3",
        "sglang serve deepseek-ai/DeepSeek-R1-Distill-Qwen-7B --reasoning-parser deepseek-r1",
        "sglang serve Qwen/QwQ-32B --reasoning-parser deepseek-r1",
        "sglang serve org/Llama-3-8B-R1 --reasoning-parser deepseek-r1",
        "sglang serve my/finetune --tool-call-parser llama3",
        "sglang serve org/database-8b --tool-call-parser llama3",
        "sglang serve m --chunked-prefill-size 4096 --page-size 64",
        "python -m sglang_router.launch_server --model-path m --router-policy random",
    ],
)
def test_check_command_finds_nothing_in_a_good_command(text):
    assert check(text) == ()


@pytest.mark.parametrize(
    ("text", "version", "kind", "flag", "fixed"),
    [
        (SERVE + " --tensor-paralel-size 2", "0.5.23", "unknown", "--tensor-paralel-size", SERVE + " --tp-size 2"),
        (SERVE + " --max-model-len 8192", "0.5.23", "unknown", "--max-model-len", SERVE + " --context-length 8192"),
        (SERVE + " --qqqq 1 --tp 2", "0.5.23", "unknown", "--qqqq", SERVE + " --tp 2"),
        (
            SERVE + " --cuda-graph-max-bs 8",
            "0.5.23",
            "removed",
            "--cuda-graph-max-bs",
            SERVE + " --cuda-graph-max-bs-decode 8",
        ),
        (SERVE + " --cuda-graph-max-bs-decode 8", "0.5.12", "unknown", "--cuda-graph-max-bs-decode", SERVE),
        (SERVE + " --torchao-config x", "0.5.23", "removed", "--torchao-config", SERVE),
        (SERVE + " --stream-output", "0.5.23", "removed", "--stream-output", SERVE + " --incremental-streaming-output"),
        (
            SERVE + " --cuda-graph-max-bs 8",
            "0.5.15",
            "deprecated",
            "--cuda-graph-max-bs",
            SERVE + " --cuda-graph-max-bs-decode 8",
        ),
        (
            SERVE + " --disable-cuda-graph",
            "0.5.23",
            "deprecated",
            "--disable-cuda-graph",
            SERVE + " --cuda-graph-backend-decode disabled --cuda-graph-backend-prefill disabled",
        ),
        (SERVE + " --tp 2 --tp 4", "0.5.23", "duplicate", "--tp", SERVE + " --tp 4"),
        (SERVE + " --tp two", "0.5.23", "type", "--tp", SERVE),
        (SERVE + " --context-length 1.5Ki", "0.5.23", "type", "--context-length", SERVE),
        (SERVE + " --preferred-sampling-params {a}", "0.5.23", "type", "--preferred-sampling-params", SERVE),
        (SERVE + " --enable-metrics true", "0.5.23", "type", "--enable-metrics", SERVE + " --enable-metrics"),
        (SERVE + " --enable-metrics=1", "0.5.23", "type", "--enable-metrics", SERVE + " --enable-metrics"),
        (SERVE + " --enable-metrics false", "0.5.23", "type", "--enable-metrics", SERVE),
        (SERVE + " --dtype bfloat", "0.5.23", "choice", "--dtype", SERVE + " --dtype float"),
        (SERVE + " --dtype zzz", "0.5.23", "choice", "--dtype", SERVE),
        (SERVE + " --tp", "0.5.23", "missing", "--tp", SERVE),
        (SERVE + " --config=x.yaml", "0.5.23", "config", "--config", SERVE + " --config x.yaml"),
        (SERVE + " --conf x.yaml", "0.5.23", "config", "--conf", SERVE + " --config x.yaml"),
        (
            "SGL_ENABLE_JIT_DEEPGEMM=0 " + SERVE,
            "0.5.23",
            "environment",
            "SGL_ENABLE_JIT_DEEPGEMM",
            "SGLANG_ENABLE_JIT_DEEPGEMM=0 " + SERVE,
        ),
        (
            "SGLANG_ENABLE_JIT_DEEPGEM=0 " + SERVE,
            "0.5.23",
            "environment",
            "SGLANG_ENABLE_JIT_DEEPGEM",
            "SGLANG_ENABLE_JIT_DEEPGEMM=0 " + SERVE,
        ),
        ("SGLANG_QQQQQQ=0 " + SERVE, "0.5.23", "environment", "SGLANG_QQQQQQ", SERVE),
        (
            "CUDA_VISIBLE_DEVICE=0 " + SERVE,
            "0.5.23",
            "environment",
            "CUDA_VISIBLE_DEVICE",
            "CUDA_VISIBLE_DEVICES=0 " + SERVE,
        ),
        (
            "PYTORCH_ALLOC_CONF=pinned_max_round_threshold_mb:16,backend:native " + SERVE,
            "0.5.15.post1",
            "allocator",
            "PYTORCH_ALLOC_CONF",
            "PYTORCH_ALLOC_CONF=backend:native " + SERVE,
        ),
        (
            "PYTORCH_ALLOC_CONF=expandable_segments:1 " + SERVE,
            "0.5.23",
            "allocator",
            "PYTORCH_ALLOC_CONF",
            "PYTORCH_ALLOC_CONF=expandable_segments:True " + SERVE,
        ),
        (
            "PYTORCH_ALLOC_CONF=backend:cudaMallocAsync,expandable_segments:True " + SERVE,
            "0.5.23",
            "allocator",
            "PYTORCH_ALLOC_CONF",
            "PYTORCH_ALLOC_CONF=backend:cudaMallocAsync " + SERVE,
        ),
        (
            "PYTORCH_ALLOC_CONF=backend:native " + SERVE,
            "0.5.2",
            "allocator",
            "PYTORCH_ALLOC_CONF",
            "PYTORCH_CUDA_ALLOC_CONF=backend:native " + SERVE,
        ),
        (
            "CUDA_VISIBLE_DEVICES=0,1,2 " + SERVE + " --tp 4",
            "0.5.23",
            "devices",
            "CUDA_VISIBLE_DEVICES",
            "CUDA_VISIBLE_DEVICES=0,1,2 " + SERVE + " --tp 2",
        ),
        (
            "sglang serve Qwen/Qwen3-8B-Base --reasoning-parser qwen3",
            "0.5.23",
            "parser",
            "--reasoning-parser",
            "sglang serve Qwen/Qwen3-8B-Base",
        ),
        (
            "sglang serve Qwen/Qwen3-8B --tool-call-parser kimi_k2",
            "0.5.23",
            "parser",
            "--tool-call-parser",
            "sglang serve Qwen/Qwen3-8B --tool-call-parser auto",
        ),
    ],
)
def test_check_command_finds_the_fault_and_corrects_it(text, version, kind, flag, fixed):
    assert (kind, flag) in kinds(text, version)
    result = corrected(text, version)
    assert result == fixed
    assert check(result, version) == ()


@pytest.mark.parametrize(
    ("text", "kind", "flag"),
    [
        (SERVE + " --attention triton", "ambiguous", "--attention"),
        ("sglang serve --tp 2", "missing", "--model-path"),
        (SERVE + " --served-model-name my model", "unknown", "model"),
        ("PYTORCH_ALLOC_CONF=expandable_segments " + SERVE, "allocator", "PYTORCH_ALLOC_CONF"),
        (
            "PYTORCH_ALLOC_CONF=backend:native PYTORCH_CUDA_ALLOC_CONF=backend:native " + SERVE,
            "allocator",
            "PYTORCH_CUDA_ALLOC_CONF",
        ),
        ("CUDA_VISIBLE_DEVICES=0 " + SERVE + " --dp 2", "devices", "CUDA_VISIBLE_DEVICES"),
        ("CUDA_VISIBLE_DEVICES=0 " + SERVE + " --base-gpu-id 1", "devices", "CUDA_VISIBLE_DEVICES"),
        ("CUDA_VISIBLE_DEVICES= " + SERVE, "devices", "CUDA_VISIBLE_DEVICES"),
        (SERVE + " --enable-dp-attention", "deprecated", "--enable-dp-attention"),
    ],
)
def test_check_command_finds_what_only_the_user_can_decide(text, kind, flag):
    assert (kind, flag) in kinds(text)


@pytest.mark.parametrize(
    "text",
    [
        "CUDA_VISIBLE_DEVICES=0,1 sglang serve m --tp 4 --nnodes 2 --node-rank 0 --dist-init-addr a:1",
        "CUDA_VISIBLE_DEVICES= sglang serve m --device cpu",
        "CUDA_VISIBLE_DEVICES=$GPUS sglang serve m --tp 4",
        "CUDA_VISIBLE_DEVICES=0 sglang serve m --tp $TP",
    ],
)
def test_check_command_counts_devices_of_one_node(text):
    assert check(text) == ()


def test_check_command_counts_shared_ranks_of_dp_attention_once():
    text = "CUDA_VISIBLE_DEVICES=0,1,2,3 sglang serve m --tp 4 --dp 4 --enable-dp-attention"
    assert check(text, "0.5.12") == ()


def test_check_command_puts_errors_first():
    problems = check(SERVE + " --disable-cuda-graph --tp two")
    assert [problem.severity for problem in problems] == ["error", "warning"]


ROWS = load_validations()


def test_load_validations_has_the_combinations_a_user_meets():
    assert len(ROWS) >= 60


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.example[:60])
def test_check_command_refuses_the_example_of_each_combination(row):
    table = load_table(row.until or "0.5.23")
    command = parse_command(f"sglang serve m {row.example}")
    assert row.message in [problem.message for problem in check_command(command, table)]
    if row.fixes:
        fixed = parse_command(apply_edits(command, row.fixes, table))
        assert row.message not in [problem.message for problem in check_command(fixed, table)]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.example[:60])
def test_load_validations_names_fields_and_flags_of_its_versions(row):
    table = load_table(row.until or "0.5.23")
    fields = [word for term in row.terms for word in term.left if word.isidentifier()]
    assert all(table.find_dest(name) for name in fields)
    assert all(table.find(edit.name) for edit in row.fixes)


def test_check_command_leaves_older_versions_alone():
    text = "sglang serve m --attn-dp-size 2 --dp-size 2 --tp 2"
    assert ("conflict", "--attn-dp-size") in kinds(text)
    assert "conflict" not in [kind for kind, _ in kinds(text.replace("--attn-dp-size 2 ", ""), "0.5.12")]


def test_check_command_leaves_combinations_with_unknown_values_alone():
    assert kinds("sglang serve m --tp $TP --nnodes 2 --dist-init-addr a:1") == []


def test_check_command_stops_at_a_limit():
    text = "sglang serve m " + "".join(f"--q{number} " for number in range(2 * MAX_PROBLEMS))
    assert len(check(text)) == MAX_PROBLEMS

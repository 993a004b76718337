"""Probes of the groups tools and launch."""

import json
import os
import struct

import pytest

from doctor.probes import backends, command, context_length, fit, model_files
from doctor.probes.base.edits import correct_command
from doctor.probes.base.launch import find_snapshot, list_model_places
from tests.probes.helpers import (
    make_context,
    make_device,
    make_gpus,
    make_path,
    make_python,
    make_sglang,
    problems,
    run,
    statuses,
    write,
)

CONFIG = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 128,
    "max_position_embeddings": 1024,
    "torch_dtype": "bfloat16",
}


@pytest.fixture
def model(tmp_path):
    folder = tmp_path / "model"
    write(tmp_path, "model/config.json", json.dumps(CONFIG))
    write(tmp_path, "model/tokenizer.json", "{}")
    write(tmp_path, "model/chat_template.jinja", "x")
    header = json.dumps({"w": {"dtype": "BF16", "shape": [2], "data_offsets": [0, 4]}}).encode()
    (folder / "model.safetensors").write_bytes(struct.pack("<Q", len(header)) + header + b"\0" * 4)
    return folder


def see(model, flags="", gpus=None, environment=None, python=None, **fields):
    observed = {
        "paths": make_path(str(model)),
        "gpus": gpus or make_gpus(),
        "python": python or make_python(make_sglang()),
    }
    return make_context("/", f"sglang serve --model-path {model} {flags}", environment, observed, model, **fields)


def test_command_that_is_valid(model):
    assert statuses(command, see(model)) == ["ok"]


def test_command_with_an_unknown_flag(model):
    context = see(model, "--tensor-paralel-size 2")
    (found,) = problems(command, context)
    assert found.severity == "error"
    assert "--tensor-parallel-size 2" in correct_command(context.launch, [found]) or "--tp" in correct_command(
        context.launch, [found]
    )


def test_command_of_a_version_without_a_table(model):
    context = see(model, python=make_python(make_sglang("0.5.15.post1")), version="0.5.16")
    assert "judged by the flags of" in run(command, context)[0].summary


def test_snapshot_of_a_branch_a_tag_and_a_commit(tmp_path):
    write(tmp_path, "refs/main", "abc\n")
    write(tmp_path, "refs/pr/1", "def\n")
    for commit in ("abc", "def"):
        (tmp_path / "snapshots" / commit).mkdir(parents=True)
    found = {name: find_snapshot(str(tmp_path), name) for name in ("main", "pr/1", "def", "v9")}
    assert found == {
        "main": f"{tmp_path}/snapshots/abc",
        "pr/1": f"{tmp_path}/snapshots/def",
        "def": f"{tmp_path}/snapshots/def",
        "v9": None,
    }


def test_model_that_is_complete(model):
    assert statuses(model_files, see(model)) == ["ok"]


def test_model_path_that_does_not_exist():
    context = make_context(
        "/",
        "sglang serve --model-path /nonexistent/model",
        observed={"paths": make_path("/nonexistent/model", exists=False)},
    )
    assert "does not exist" in problems(model_files, context)[0].summary


def test_model_on_the_hub_is_not_judged():
    assert statuses(model_files, make_context("/", "sglang serve --model-path org/name", observed={"paths": {}})) == [
        "not-applicable"
    ]


def test_model_folder_that_does_not_answer():
    from doctor.probes.base.context import Answer

    context = make_context(
        "/", "sglang serve --model-path /dead", observed={"paths": Answer({}, "/dead does not answer")}
    )
    assert statuses(model_files, context) == ["unknown"]


@pytest.mark.parametrize(
    ("name", "words"),
    [("config.json", "config.json"), ("tokenizer.json", "no tokenizer"), ("model.safetensors", "no weights")],
)
def test_model_with_a_file_missing(model, name, words):
    os.remove(model / name)
    assert any(words in found.summary and found.severity == "error" for found in problems(model_files, see(model)))


@pytest.mark.parametrize("name", ["architectures", "model_type"])
def test_model_whose_config_lacks_a_name(model, name):
    write(model, "config.json", json.dumps({key: value for key, value in CONFIG.items() if key != name}))
    assert problems(model_files, see(model))[0].severity == "error"


@pytest.mark.parametrize("name", ["params.json", "model_index.json"])
def test_model_in_another_format_is_not_looked_into(tmp_path, name):
    write(tmp_path, name, "{}")
    (found,) = run(model_files, see(tmp_path))
    assert (found.status, "not looked into" in found.summary) == ("ok", True)


def test_model_behind_a_connector_is_not_looked_for():
    context = make_context("/", "sglang serve --model-path s3://bucket/model", observed={"paths": {}})
    assert list_model_places(context.launch, {}) == ()
    assert statuses(model_files, context) == ["not-applicable"]


@pytest.mark.parametrize("name", ["vocab.txt", "sentencepiece.bpe.model", "tokenization_own.py", "own.tiktoken"])
def test_model_with_a_tokenizer_of_another_kind(model, name):
    os.rename(model / "tokenizer.json", model / name)
    assert problems(model_files, see(model)) == []


@pytest.mark.parametrize("name", ["dummy", "remote", "remote_instance"])
def test_model_without_weights_is_fine_where_none_are_read(model, name):
    os.remove(model / "model.safetensors")
    assert problems(model_files, see(model, f"--load-format {name}")) == []


def test_model_with_a_missing_shard(model):
    index = {"weight_map": {"w": "model.safetensors", "x": "model-00002-of-00002.safetensors"}}
    write(model, "model.safetensors.index.json", json.dumps(index))
    assert "model-00002-of-00002" in problems(model_files, see(model))[0].summary


def test_model_with_a_cut_shard(model):
    (model / "model.safetensors").write_bytes((model / "model.safetensors").read_bytes()[:-1])
    assert problems(model_files, see(model))[0].severity == "error"


def test_download_names_the_repository_that_the_config_names(model):
    write(model, "config.json", json.dumps({**CONFIG, "_name_or_path": "org/name"}))
    os.remove(model / "model.safetensors")
    assert problems(model_files, see(model))[0].fixes == (f"hf download org/name --local-dir {model}",)


def test_download_names_the_repository_of_the_cache(tmp_path):
    folder = tmp_path / "models--org--name" / "snapshots" / "abc"
    folder.mkdir(parents=True)
    assert model_files.find_repository(folder) == "org/name"


@pytest.mark.parametrize("name", ["/local/path", "a b/c", "$(x)/y", "only", ""])
def test_download_invents_no_repository(model, name):
    write(model, "config.json", json.dumps({**CONFIG, "_name_or_path": name}))
    assert model_files.find_repository(model) is None


def test_model_with_lfs_pointers(model):
    (model / "model.safetensors").write_text("version https://git-lfs.github.com/spec/v1\noid sha256:1\nsize 5\n")
    assert problems(model_files, see(model))[0].fixes[0] == "git lfs pull"


def test_model_without_a_chat_template_is_a_note(model):
    os.remove(model / "chat_template.jinja")
    assert [found.severity for found in problems(model_files, see(model))] == ["info"]


def test_model_with_code_of_its_own(model):
    write(model, "config.json", json.dumps({**CONFIG, "auto_map": {"AutoModel": "x.Y"}}))
    assert "--trust-remote-code" in problems(model_files, see(model))[0].summary
    assert problems(model_files, see(model, "--trust-remote-code")) == []


@pytest.mark.parametrize(("name", "good"), [("LlamaForCausalLM", True), ("OtherForCausalLM", False)])
def test_architecture_that_sglang_has(model, tmp_path, name, good):
    write(tmp_path, "sglang/srt/models/a.py", f"import x\n\nclass {name}(nn.Module):\n    pass\n")
    python = make_python(make_sglang(), sglang_at=str(tmp_path / "sglang" / "__init__.py"))
    assert (problems(model_files, see(model, python=python)) == []) is good


@pytest.mark.parametrize(("flags", "severity"), [("--context-length 4096", "error"), ("--context-length 1024", None)])
def test_context_length(model, flags, severity):
    context = see(model, flags)
    found = problems(context_length, context)
    assert [problem.severity for problem in found] == ([severity] if severity else [])
    if severity:
        assert correct_command(context.launch, found).endswith("--context-length 1024")


def test_context_length_with_the_permission(model):
    context = see(model, "--context-length 4096", environment={"SGLANG_ALLOW_OVERWRITE_LONGER_CONTEXT_LEN": "1"})
    assert [found.severity for found in problems(context_length, context)] == ["warning"]


@pytest.mark.parametrize(
    ("flags", "capability", "good"),
    [
        ("--attention-backend fa3", [9, 0], True),
        ("--attention-backend fa3", [12, 0], False),
        ("--attention-backend trtllm_mla", [9, 0], False),
        ("--attention-backend trtllm_mha", [10, 0], True),
        ("--attention-backend triton", [7, 5], True),
        ("--fp8-gemm-backend deep_gemm", [8, 9], False),
        ("--dtype bfloat16", [7, 5], False),
    ],
)
def test_backend_against_capability(model, flags, capability, good):
    context = see(model, flags, make_gpus(make_device(capability=capability)))
    found = [problem for problem in problems(backends, context) if problem.severity == "error"]
    assert (found == []) is good
    if found:
        assert correct_command(context.launch, found)


LATENT = {**CONFIG, "architectures": ["DeepseekV3ForCausalLM"], "kv_lora_rank": 512}


@pytest.mark.parametrize(
    ("config", "backend", "capability", "good"),
    [
        (CONFIG, "flashmla", [9, 0], False),
        (LATENT, "flashmla", [9, 0], True),
        (LATENT, "trtllm_mha", [10, 0], False),
        (CONFIG, "trtllm_mla", [10, 0], False),
        (LATENT, "fa3", [9, 0], True),
        (LATENT, "fa3", [8, 0], False),
        (CONFIG, "fa3", [8, 0], True),
    ],
)
def test_backend_against_the_model_s_attention(model, config, backend, capability, good):
    write(model, "config.json", json.dumps(config))
    context = see(model, f"--attention-backend {backend}", make_gpus(make_device(capability=capability)))
    assert (problems(backends, context) == []) is good


def test_quantization_that_the_gpu_refuses(model):
    write(model, "config.json", json.dumps({**CONFIG, "quantization_config": {"quant_method": "fp8"}}))
    (found,) = problems(backends, see(model, gpus=make_gpus(make_device(capability=[7, 5]))))
    assert "refuses" in found.summary


def test_quantization_that_runs_as_weights_only_is_a_note(model):
    write(model, "config.json", json.dumps({**CONFIG, "quantization_config": {"quant_method": "fp8"}}))
    (found,) = problems(backends, see(model, gpus=make_gpus(make_device(capability=[8, 0]))))
    assert found.severity == "info"


BIG = {
    **CONFIG,
    "hidden_size": 8192,
    "intermediate_size": 28672,
    "num_hidden_layers": 90,
    "num_attention_heads": 64,
    "num_key_value_heads": 8,
    "vocab_size": 1000,
}


def test_model_that_fits(model):
    assert statuses(fit, see(model, "--mem-fraction-static 0.5"))[0] == "ok"


def test_model_that_does_not_fit(model):
    write(model, "config.json", json.dumps(BIG))
    os.remove(model / "model.safetensors")
    (found,) = problems(fit, see(model, "--load-format dummy"))
    assert found.severity == "error"


def test_grouped_offload_of_the_wrong_architecture(model):
    context = see(model, "--offload-group-size 1")
    (found,) = problems(fit, context)
    assert "only DeepSeek" in found.summary
    assert "--offload-group-size" not in correct_command(context.launch, [found])


def test_fit_without_a_gpu_is_unknown(model):
    from doctor.probes.base.context import Answer

    context = see(model)._replace(observed={"gpus": Answer(None, "none"), "paths": Answer(make_path(str(model)))})
    assert statuses(fit, context) == ["unknown"]

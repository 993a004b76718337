"""Plans of what lies in a model's folder: headers, missing shards and sizes, damaged files."""

import json

import pytest

from doctor.errors import DoctorError
from doctor.memory.plan import plan_model

from .helpers import (
    FIXTURES,
    H200,
    LLAMA,
    get_row,
    list_llama_tensors,
    plan_fixture,
    write_model,
    write_safetensors,
)


def test_plan_of_a_folder_with_weights_reads_their_headers(tmp_path):
    plan = plan_model(write_model(tmp_path), {}, H200, "0.5.23")
    assert plan.stored[0].name == "bf16"
    assert plan.stored[0].size == sum(size for *_, size in list_llama_tensors())
    assert not any("config.json" in note for note in plan.notes)


def test_plan_believes_the_files_where_the_config_differs(tmp_path):
    write_model(tmp_path, {**LLAMA, "intermediate_size": 256})
    plan = plan_model(tmp_path, {}, H200, "0.5.23")
    assert get_row(plan.weights, "dense") == sum(s for n, _, _, s in list_llama_tensors() if ".mlp." in n)
    assert any("the files are believed" in note for note in plan.notes)


def test_plan_counts_parts_that_only_the_files_have(tmp_path):
    extra = [
        ("visual.blocks.0.attn.weight", "BF16", (512, 512), 524288),
        ("strange.weight", "BF16", (512, 512), 524288),
    ]
    write_model(tmp_path, tensors=list_llama_tensors() + extra)
    plan = plan_model(tmp_path, {"tp_size": 2}, H200._replace(gpus=2), "0.5.23")
    assert get_row(plan.weights, "vision") == 524288
    assert get_row(plan.weights, "other") == 524288


def test_plan_does_not_count_a_tied_head_that_the_files_repeat(tmp_path):
    write_model(tmp_path, {**LLAMA, "tie_word_embeddings": True})
    assert get_row(plan_model(tmp_path, {}, H200, "0.5.23").weights, "head") == 0


def test_plan_does_not_count_draft_layers_of_the_files(tmp_path):
    draft = [("model.layers.2.self_attn.q_proj.weight", "BF16", (512, 512), 524288)]
    with_draft, without = tmp_path / "a", tmp_path / "b"
    for folder, tensors in ((with_draft, list_llama_tensors() + draft), (without, list_llama_tensors())):
        folder.mkdir()
        write_model(folder, tensors=tensors)
    plans = [plan_model(folder, {}, H200, "0.5.23") for folder in (with_draft, without)]
    assert plans[0].weights == plans[1].weights


def test_plan_of_a_missing_shard_says_so_and_answers(tmp_path):
    write_model(tmp_path)
    names = {"a": "model.safetensors", "b": "model-00002-of-00002.safetensors"}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps({"weight_map": names}))
    plan = plan_model(tmp_path, {}, H200, "0.5.23")
    assert plan.tokens > 0
    assert any("incomplete" in note for note in plan.notes)


def test_plan_of_an_unknown_architecture_says_so_and_answers(tmp_path):
    write_model(tmp_path, {**LLAMA, "architectures": ["BrandNewForCausalLM"]})
    plan = plan_model(tmp_path, {}, H200, "0.5.23")
    assert plan.tokens > 0
    assert any("BrandNewForCausalLM is unknown" in note for note in plan.notes)


def test_plan_of_missing_sizes_takes_them_from_the_files(tmp_path):
    data = {key: value for key, value in LLAMA.items() if key not in {"vocab_size", "num_hidden_layers"}}
    plan = plan_model(write_model(tmp_path, data), {}, H200, "0.5.23")
    assert any("config.json lacks" in note and "vocab_size 128" in note for note in plan.notes)


def test_plan_of_a_size_that_nothing_gives_is_an_error(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps({"architectures": ["LlamaForCausalLM"], "hidden_size": 64}))
    with pytest.raises(DoctorError, match="lacks num_hidden_layers"):
        plan_model(tmp_path, {}, H200, "0.5.23")


def test_plan_of_a_damaged_config_beside_weights_is_an_error_that_names_the_size(tmp_path):
    write_model(tmp_path)
    (tmp_path / "config.json").write_text("{")
    with pytest.raises(DoctorError, match="num_attention_heads"):
        plan_model(tmp_path, {}, H200, "0.5.23")


@pytest.mark.parametrize("name", ["nothing", "meta-llama/Llama-3.1-8B"])
def test_plan_of_no_folder_is_an_error(tmp_path, name):
    with pytest.raises(DoctorError, match="no such model folder"):
        plan_model(tmp_path / name, {}, H200, "0.5.23")


def test_plan_of_an_empty_folder_is_an_error(tmp_path):
    with pytest.raises(DoctorError):
        plan_model(tmp_path, {}, H200, "0.5.23")


def test_plan_of_a_config_file_alone():
    path = FIXTURES / "dense8b" / "config.json"
    assert plan_model(path, {}, H200, "0.5.23").tokens > 0


def test_plan_of_bin_weights_says_that_they_have_no_header(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps(LLAMA))
    (tmp_path / "pytorch_model.bin").write_bytes(b"")
    assert any(".bin" in note for note in plan_model(tmp_path, {}, H200, "0.5.23").notes)


def test_plan_of_online_fp8_halves_the_linear_layers(tmp_path):
    write_model(tmp_path)
    plain = plan_model(tmp_path, {}, H200, "0.5.23")
    small = plan_model(tmp_path, {"quantization": "fp8"}, H200, "0.5.23")
    assert get_row(small.weights, "dense") == pytest.approx(get_row(plain.weights, "dense") / 2, rel=0.01)
    assert get_row(small.weights, "embedding") == get_row(plain.weights, "embedding")


def test_plan_of_a_silent_config_without_a_head_in_the_files_ties_them(tmp_path):
    data = {key: value for key, value in LLAMA.items() if key != "tie_word_embeddings"}
    write_model(tmp_path, data, [tensor for tensor in list_llama_tensors() if tensor[0] != "lm_head.weight"])
    assert get_row(plan_model(tmp_path, {}, H200, "0.5.23").weights, "head") == 0


def test_plan_counts_a_draft_model_in_a_folder_of_its_own(tmp_path):
    folder = tmp_path / "draft"
    folder.mkdir()
    write_model(folder)
    plan = plan_fixture("dense8b", speculative_algorithm="EAGLE3", speculative_draft_model_path=str(folder))
    assert get_row(plan.weights, "draft model") == (folder / "model.safetensors").stat().st_size
    assert any("KV cache of the draft model" in note for note in plan.notes)


def test_plan_of_a_cut_file_still_answers_from_the_config(tmp_path):
    write_model(tmp_path)
    write_safetensors(tmp_path / "model.safetensors", list_llama_tensors(), cut=100)
    plan = plan_model(tmp_path, {}, H200, "0.5.23")
    assert any("download is incomplete" in note for note in plan.notes)
    assert plan.tokens > 0

"""`doctor plan` as a real program: good input, bad input, recipes."""

import json
import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from doctor.commands.plan import read_launch
from doctor.launch.flags import load_table

from .memory.helpers import LLAMA

NEWEST = load_table(None)
TINY = {**LLAMA, "model_type": "llama", "vocab_size": 512, "max_position_embeddings": 2048}
QWEN = {
    **TINY,
    "architectures": ["Qwen3ForCausalLM"],
    "model_type": "qwen3",
    "num_hidden_layers": 36,
    "vocab_size": 151936,
    "head_dim": 16,
}
V4 = {
    "architectures": ["DeepseekV4ForCausalLM"],
    "model_type": "deepseek_v4",
    "num_hidden_layers": 43,
    "expert_dtype": "fp4",
}
H200 = ("--gpu", "H200")


@pytest.fixture
def make_model(tmp_path):
    def make(config=TINY, **changes):
        folder = tmp_path / "model"
        folder.mkdir(exist_ok=True)
        kept = {name: value for name, value in {**config, **changes}.items() if value is not None}
        (folder / "config.json").write_text(json.dumps(kept))
        return folder

    return make


def run_plan(*words):
    command = [sys.executable, "-m", "doctor", "plan", *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def read_plan(*words):
    done = run_plan(*words, "--format", "json") if "--" not in words else run_before(words)
    assert "Traceback" not in done.stderr
    return json.loads(done.stdout)


def run_before(words):
    at = words.index("--")
    return run_plan(*words[:at], "--format", "json", *words[at:])


def test_plan_that_fits_exits_0(make_model):
    done = run_plan(make_model(), *H200)
    assert done.returncode == 0
    assert "Verdict: FITS" in done.stdout


def test_plan_that_does_not_fit_exits_1(make_model):
    done = run_plan(make_model(), *H200, "--", "--tp", "2")
    assert done.returncode == 1
    assert "2 GPUs are needed" in done.stderr


def test_plan_without_the_model_exits_2(tmp_path):
    done = run_plan(tmp_path / "absent", *H200)
    assert (done.returncode, done.stdout) == (2, "")
    assert "no such folder" in done.stderr


def test_plan_of_an_open_quote_answers_the_rest(make_model):
    done = run_plan(make_model(), *H200, "--", "sglang serve --served-model-name 'tiny --tp 1")
    assert done.returncode == 1
    assert "Verdict: FITS" in done.stdout
    assert "opened but never closed" in done.stdout
    assert "Traceback" not in done.stderr


def test_plan_of_half_a_command_names_the_half(make_model):
    plan = read_plan(make_model(), *H200, "--", "--tp")
    assert plan["verdict"] == "fits"
    assert plan["problems"] == ["error: --tp needs a value"]


def test_plan_of_a_whole_command_in_one_word_reads_it(make_model):
    plan = read_plan(make_model(), *H200, "--", "sglang serve --model-path m --mem-fraction-static 0.5")
    assert (plan["problems"], plan["fraction"]) == ([], 0.5)


def test_plan_of_a_misspelt_flag_says_so(make_model):
    (problem,) = read_plan(make_model(), *H200, "--", "--tensor-paralel-size", "1")["problems"]
    assert "--tensor-parallel-size" in problem


def test_plan_does_not_run_what_the_command_names(make_model, tmp_path):
    run_plan(make_model(), *H200, "--", f"--served-model-name $(touch {tmp_path}/ran) --tp 1")
    assert not (tmp_path / "ran").exists()


def test_plan_of_an_unknown_architecture_plans_by_its_sizes(make_model):
    plan = read_plan(make_model(architectures=["NewForCausalLM"], model_type="new"), *H200)
    assert plan["verdict"] == "fits"
    assert any("NewForCausalLM is unknown here" in note for note in plan["notes"])


def test_plan_of_an_unknown_architecture_without_weights_says_that_it_guesses(make_model):
    folder = make_model(architectures=["NewForCausalLM"], model_type="new")
    (folder / "model.safetensors").unlink(missing_ok=True)
    done = run_plan(folder, *H200)
    assert "Verdict: FITS (a guess: NewForCausalLM is unknown here)" in done.stdout


def test_plan_of_an_unknown_architecture_of_another_form_exits_2(tmp_path):
    (tmp_path / "config.json").write_text('{"architectures": ["WhisperForConditionalGeneration"], "d_model": 8}')
    done = run_plan(tmp_path, *H200)
    assert done.returncode == 2
    assert "architecture WhisperForConditionalGeneration is unknown here" in done.stderr
    assert "doctor explain LOG" in done.stderr


def test_plan_of_a_missing_size_exits_2(make_model):
    done = run_plan(make_model(hidden_size=None), *H200)
    assert done.returncode == 2
    assert "config.json lacks hidden_size" in done.stderr


def test_plan_of_a_missing_size_answers_about_the_command(make_model):
    done = run_plan(make_model(hidden_size=None), *H200, "--", "--tensor-paralel-size", "1")
    assert done.returncode == 1
    assert "--tensor-parallel-size" in done.stdout
    assert "config.json lacks hidden_size" in done.stderr


def test_plan_of_a_config_that_is_not_json_exits_2(make_model):
    folder = make_model()
    (folder / "config.json").write_text('{"architectures": [')
    done = run_plan(folder, *H200)
    assert done.returncode == 2
    assert "not JSON" in done.stderr


def test_plan_of_an_empty_folder_exits_2(tmp_path):
    done = run_plan(tmp_path, *H200)
    assert done.returncode == 2
    assert "config.json" in done.stderr


def test_plan_names_shards_that_the_folder_lacks(make_model):
    folder = make_model()
    index = {"weight_map": {"model.norm.weight": "model-00001-of-00002.safetensors"}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    plan = read_plan(folder, *H200)
    assert plan["verdict"] == "fits"
    assert any("model-00001-of-00002.safetensors" in note for note in plan["notes"])


def test_plan_of_grouped_offload_says_which_models_it_crashes(make_model):
    done = run_plan(make_model(), *H200, "--", "--offload-group-size", "2")
    assert done.returncode == 1
    assert "--offload-group-size crashes with LlamaForCausalLM" in done.stderr


def test_plan_of_an_unknown_gpu_names_known_ones(make_model):
    done = run_plan(make_model(), "--gpu", "RTX 9999")
    assert done.returncode == 2
    assert "known:" in done.stderr


def test_plan_shows_the_recipes_for_this_gpu(make_model):
    done = run_plan(make_model(QWEN), *H200)
    assert "--reasoning-parser qwen3" in done.stdout
    assert "https://github.com/sgl-project/sglang/blob/" in done.stdout


def test_plan_shows_recipes_as_json(make_model):
    folder = make_model(QWEN)
    (recipe,) = read_plan(folder, *H200)["recipes"]["list"]
    assert recipe["command"].startswith(f"sglang serve --model-path {folder} ")


def test_plan_without_sizes_still_shows_recipes(make_model):
    done = run_plan(make_model(V4), "--gpu", "B300", "--gpus", "4")
    assert done.returncode == 1
    assert "--moe-runner-backend flashinfer_mxfp4" in done.stdout


def test_plan_for_an_old_gpu_says_why_there_is_no_recipe(make_model):
    done = run_plan(make_model(V4), "--gpu", "A100 80GB", "--gpus", "8")
    assert "no recipe for sm_80: the FP4 expert kernels need Hopper or newer" in done.stdout


WORDS = st.sampled_from(
    ["sglang", "serve", "--tp", "--tp=", "2", "'", '"', "--", "$(x)", "A=1", "docker", "run", "-e", "\\", "\x00"]
)


@given(st.lists(WORDS | st.text(max_size=12), max_size=8))
@settings(deadline=None)
def test_read_launch_never_raises(words):
    fields, problems = read_launch(words, NEWEST)
    assert isinstance(fields, dict)
    assert all("\n" not in problem for problem in problems)


def test_plan_of_an_unknown_quantization_says_that_it_guesses(make_model):
    done = run_plan(make_model(quantization_config={"quant_method": "hqq"}), *H200)
    assert "(a guess: quantization hqq is unknown here)" in done.stdout

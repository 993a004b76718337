"""The table of recipes: every flag is one of SGLang's, and the right recipes are found."""

import shlex

import pytest

from doctor.launch.check import check_command
from doctor.launch.command import parse_command
from doctor.launch.flags import load_table
from doctor.memory.config import make_config
from doctor.memory.gpus import TABLE as GPUS
from doctor.memory.gpus import Machine, describe_machine
from doctor.memory.recipes import find_family, find_first_version, find_recipes, load_families, write_command
from tests.helpers import ROOT

NEWEST = load_table(None)
RECIPES = [recipe for family in load_families() for recipe in family.recipes]
each_recipe = pytest.mark.parametrize("recipe", RECIPES, ids=lambda recipe: f"{recipe.family}-{recipe.goal}")
FLASH = {"architectures": ["DeepseekV4ForCausalLM"], "num_hidden_layers": 43, "expert_dtype": "fp4"}
PRO = {**FLASH, "num_hidden_layers": 61}


def find(config, gpu, gpus=8):
    return find_recipes(make_config(config), describe_machine(gpu, gpus))


@each_recipe
def test_recipe_checks_clean_against_the_newest_version(recipe):
    command = parse_command(write_command(recipe, recipe.checkpoint))
    # 0.5.23 calls --enable-dp-attention deprecated and takes it all the same
    assert [problem for problem in check_command(command, NEWEST) if problem.kind != "deprecated"] == []


@each_recipe
def test_recipe_names_known_gpus_and_its_origin(recipe):
    names = {name for name, _, _ in GPUS}
    assert recipe.gpus
    assert names.issuperset(recipe.gpus)
    assert recipe.source.startswith("https://")
    assert recipe.read == "2026-12-01"


@each_recipe
def test_recipe_uses_the_gpus_it_asks_for(recipe):
    words = shlex.split(recipe.flags)
    size = int(words[words.index("--tp") + 1]) if "--tp" in words else 1
    assert size == recipe.number * recipe.nodes


def test_recipes_of_the_deepseek_v4_thread_are_there():
    hopper = {(item.goal, item.number, item.format) for item in find(FLASH, "H200", 4).recipes}
    assert {("low latency", 4, "fp8"), ("balanced", 4, "fp8")} <= hopper
    balanced = next(item for item in find(FLASH, "H200", 4).recipes if item.goal == "balanced")
    assert "--dp 4 --enable-dp-attention --moe-a2a-backend deepep" in balanced.flags
    assert "DeepEP" in balanced.packages
    assert find(FLASH, "B300", 4).recipes
    assert find(PRO, "B200", 8).recipes


def test_find_recipes_puts_the_checkpoint_at_hand_first():
    fp8 = {**FLASH, "expert_dtype": "fp8", "quantization_config": {"quant_method": "fp8"}}
    assert find(FLASH, "H200").recipes[0].format == "fp4"
    assert find(fp8, "H200").recipes[0].format == "fp8"


def test_find_recipes_for_a_gpu_older_than_the_kernels():
    advice = find(FLASH, "A100 80GB")
    assert advice.recipes == ()
    assert advice.remark == "no recipe for sm_80: the FP4 expert kernels need Hopper or newer"


def test_find_recipes_for_a_new_gpu_without_one():
    assert "there are some for 4 x H200" in find(FLASH, "RTX 5090").remark


def test_find_recipes_with_too_few_gpus():
    assert find(PRO, "B200", 4).remark == "the recipes of DeepSeek-V4-Pro need 8 x B200, 4 are there"


def test_find_recipes_without_a_gpu():
    assert "4 x H200" in find_recipes(make_config(FLASH), Machine(None)).remark


def test_find_recipes_knows_a_decorated_name():
    machine = describe_machine("H100", 8)
    gpu = machine.gpu._replace(name="NVIDIA H100 80GB HBM3")
    assert find_recipes(make_config(FLASH), machine._replace(gpu=gpu)).recipes


@pytest.mark.parametrize("gpu", ["H20", "GH200"])
def test_find_recipes_does_not_take_one_gpu_for_another(gpu):
    assert find(FLASH, gpu).recipes == ()


@pytest.mark.parametrize(
    "config",
    [
        {},
        {"architectures": ["DeepseekV4ForCausalLM"]},
        {**FLASH, "num_hidden_layers": 2},
        {"architectures": ["LlamaForCausalLM"], "num_hidden_layers": 32, "vocab_size": 32000},
        {"architectures": "DeepseekV4ForCausalLM", "num_hidden_layers": "43"},
    ],
)
def test_find_family_of_another_model(config):
    assert find_family(make_config(config)) is None


def test_find_first_version_of_renamed_flags():
    balanced = next(item for item in RECIPES if "--cuda-graph-max-bs-decode" in item.flags)
    assert find_first_version(balanced, load_table("0.5.12")) == "0.5.15"
    assert find_first_version(balanced, NEWEST) is None


def test_find_first_version_of_a_model_that_came_later():
    recipe = find(FLASH, "H200").recipes[0]
    assert find_first_version(recipe, load_table("0.5.4")) == "0.5.12"


def test_write_command_on_two_nodes_names_the_first():
    recipe = next(item for item in RECIPES if item.nodes == 2)
    assert "--nnodes 2 --node-rank 0" in write_command(recipe, "m")


def test_write_command_quotes_the_folder():
    assert "--model-path '/m/a b' " in write_command(RECIPES[0], "/m/a b")


def read_rows():
    """Return the table of docs/recipes.md: the four cells of each row."""
    page = (ROOT / "docs" / "recipes.md").read_text(encoding="utf-8").partition("## ")[0]
    return [line.strip("| ").split(" | ") for line in page.splitlines() if line.startswith("| ")][1:]


def is_in_row(recipe, gpu, row):
    family, machines, goals, checkpoint = row
    named = f"{recipe.number * recipe.nodes} x {gpu}" in machines.split(", ")
    return (family, checkpoint) == (recipe.family, f"`{recipe.checkpoint}`") and named and recipe.goal in goals


@each_recipe
def test_docs_list_the_recipe_with_its_machines(recipe):
    assert all(any(is_in_row(recipe, gpu, row) for row in read_rows()) for gpu in recipe.gpus)


@pytest.mark.parametrize("row", read_rows(), ids=lambda row: row[0])
def test_docs_list_no_other_machines(row):
    for machine in row[1].split(", "):
        assert any(is_in_row(item, gpu, row) for item in RECIPES for gpu in item.gpus if machine.endswith(f" {gpu}"))

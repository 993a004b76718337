"""Launch settings known to work, per model family and GPU."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from doctor.launch.flags import FlagTable, known_versions, load_table
from doctor.launch.versions import sort_key
from doctor.memory import config as cfg
from doctor.memory.gpus import Machine, split_name
from doctor.memory.quant import get_quant_data

# The launch commands of SGLang's cookbook, at the commits named in each family's `source`; flags renamed since
# carry the name of 0.5.23. Which model a config.json is, is told by architecture, layers and vocabulary.
TABLE = Path(__file__).with_name("recipes.json")


class Recipe(NamedTuple):
    """One launch: `number` GPUs of one of `gpus` on each of `nodes` hosts.

    `since` is the first SGLang version that serves the model ("": every known one). `checkpoint` is the
    repository it was made for, `format` how that stores its weights ("any": no matter).
    `source` is the page at one commit, `read` the day it was read (ISO).
    """

    family: str
    since: str
    goal: str
    gpus: tuple[str, ...]
    number: int
    nodes: int
    checkpoint: str
    format: str
    env: tuple[tuple[str, str], ...]
    flags: str
    packages: tuple[str, ...]
    source: str
    read: str


class Family(NamedTuple):
    """What is told apart by config.json; `lowest` is the compute capability x 10 it needs, and why."""

    name: str
    architectures: tuple[str, ...]
    layers: tuple[int, ...]
    vocab: int | None
    lowest: tuple[int, str] | None
    recipes: tuple[Recipe, ...]


class Advice(NamedTuple):
    """The recipes for a model on a machine, and a sentence where there is something to say; both may be empty.

    `stored` is the format of the checkpoint at hand, as `Recipe.format`.
    """

    recipes: tuple[Recipe, ...]
    remark: str
    stored: str = ""


def find_recipes(config: cfg.Config, machine: Machine) -> Advice:
    """Return the recipes for this model on these GPUs, or why there is none."""
    family = find_family(config)
    if family is None:
        return Advice((), "")
    if machine.gpu is None:
        return Advice((), f"{family.name} has recipes for {list_machines(family)}")
    fitting = [recipe for recipe in family.recipes if fits_gpu(recipe, machine)]
    if not fitting:
        return Advice((), explain_absence(family, machine))
    enough = tuple(recipe for recipe in fitting if recipe.number <= machine.gpus)
    if enough:
        stored = read_format(config)
        return Advice(sort_recipes(enough, stored), "", stored)
    fewest = min(recipe.number for recipe in fitting)
    return Advice((), f"the recipes of {family.name} need {fewest} x {machine.gpu.name}, {machine.gpus} are there")


def find_family(config: cfg.Config) -> Family | None:
    """Return the family of a model, None when the table has none."""
    names = cfg.list_architectures(config)
    layers = cfg.find(config, "num_hidden_layers")
    vocab = cfg.find(config, "vocab_size")
    for family in load_families():
        is_named = any(name in family.architectures for name in names)
        if is_named and layers in family.layers and family.vocab in {None, vocab}:
            return family
    return None


def fits_gpu(recipe: Recipe, machine: Machine) -> bool:
    """Tell whether the recipe was made for this GPU, whatever decorates its name."""
    words = split_name(machine.gpu.name) if machine.gpu else frozenset()
    return any(split_name(name) <= words for name in recipe.gpus)


def explain_absence(family: Family, machine: Machine) -> str:
    """Return why this GPU has no recipe: its generation, else that nobody wrote one down."""
    gpu = machine.gpu
    level = gpu.capability[0] * 10 + gpu.capability[1] if gpu else 0
    if family.lowest and 0 < level < family.lowest[0]:
        return f"no recipe for sm_{level}: {family.lowest[1]}"
    name = gpu.name if gpu else "this machine"
    return f"no recipe of {family.name} for {name}; there are some for {list_machines(family)}"


def list_machines(family: Family) -> str:
    """Return the machines of a family's recipes in words."""
    found = [f"{recipe.number * recipe.nodes} x {name}" for recipe in family.recipes for name in recipe.gpus]
    return ", ".join(dict.fromkeys(found))


def sort_recipes(recipes: tuple[Recipe, ...], stored: str) -> tuple[Recipe, ...]:
    """Return the recipes with those for the checkpoint's own format first."""
    return tuple(sorted(recipes, key=lambda recipe: recipe.format not in {stored, "any"}))


def read_format(config: cfg.Config) -> str:
    """Return how the checkpoint stores its weights: "bf16", "fp4" (DeepSeek-V4), or its quantization method."""
    if cfg.get_text(config.text, "expert_dtype") == "fp4":
        return "fp4"
    return cfg.get_text(get_quant_data(config, {}), "quant_method").lower()[:40] or "bf16"


def write_command(recipe: Recipe, model: str) -> str:
    """Return the recipe as a command to paste; on several nodes, for the first one."""
    env = [f"{name}={shlex.quote(value)}" for name, value in recipe.env]
    nodes = f"--nnodes {recipe.nodes} --node-rank 0 --dist-init-addr HEAD_IP:20000" if recipe.nodes > 1 else ""
    return " ".join(filter(None, [*env, "sglang serve --model-path", shlex.quote(model), recipe.flags, nodes]))


def find_first_version(recipe: Recipe, table: FlagTable) -> str | None:
    """Return the version from which on the model and all flags of a recipe exist, None when `table` has them."""
    if can_run(recipe, table):
        return None
    return next((version for version in known_versions() if can_run(recipe, load_table(version))), None)


def can_run(recipe: Recipe, table: FlagTable) -> bool:
    """Tell whether a version serves the model and knows all flags of a recipe."""
    flags = [word for word in shlex.split(recipe.flags) if word.startswith("--")]
    return sort_key(table.version) >= sort_key(recipe.since) and all(table.find(flag) for flag in flags)


def load_families() -> tuple[Family, ...]:
    """Load the table of recipes."""
    rows = json.loads(TABLE.read_text(encoding="utf-8"))
    return tuple(
        Family(
            row["family"],
            tuple(row["architectures"]),
            tuple(row["layers"]),
            row["vocab"],
            (row["lowest"][0], row["lowest"][1]) if row["lowest"] else None,
            tuple(read_recipes(row)),
        )
        for row in rows
    )


def read_recipes(row: Mapping[str, object]) -> Iterator[Recipe]:
    """Yield the recipes of one family."""
    name, source, read = (cfg.get_text(row, key) for key in ("family", "source", "read"))
    since = cfg.get_text(row, "since")
    shared = [str(package) for package in cfg.get_list(row, "packages")]
    for item in cfg.get_list(row, "recipes"):
        data = item if isinstance(item, dict) else {}
        env = tuple((key, str(value)) for key, value in cfg.get_map(data, "env").items())
        gpus = tuple(str(gpu) for gpu in cfg.get_list(data, "gpus"))
        packages = (*shared, *(str(package) for package in cfg.get_list(data, "packages")))
        goal, checkpoint, stored, flags = (cfg.get_text(data, key) for key in ("goal", "checkpoint", "format", "flags"))
        number, nodes = cfg.get_int(data, "number") or 1, cfg.get_int(data, "nodes") or 1
        yield Recipe(name, since, goal, gpus, number, nodes, checkpoint, stored, env, flags, packages, source, read)

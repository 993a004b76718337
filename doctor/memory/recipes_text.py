"""The recipes as text and as JSON."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from doctor.launch.flags import FlagTable
from doctor.memory.picture import NARROWEST, WIDEST, clean, wrap
from doctor.memory.recipes import Advice, Recipe, find_first_version, write_command


class Launched(NamedTuple):
    """What a recipe is printed for: the model's folder ("" when it is not at hand) and the version's flags."""

    folder: str
    table: FlagTable


def render_recipes(advice: Advice, launched: Launched, width: int) -> str:
    """Return the section of the plan, empty when there is nothing to say.

    At most `width` ASCII characters a line (40 to 160), but a command stands on one line, to be copied.
    """
    columns = max(NARROWEST, min(WIDEST, width))
    lines = list(list_lines(advice, launched, columns))
    return "\n".join(lines) + "\n" if lines else ""


def list_lines(advice: Advice, launched: Launched, width: int) -> Iterator[str]:
    """Yield a blank line, the heading, the remark and the recipes."""
    if advice.remark:
        yield ""
        yield from (clean(line, width) for line in wrap(f"Recipes: {advice.remark}", width, ""))
    if advice.recipes:
        yield ""
        family = advice.recipes[0].family
        yield from (clean(line, width) for line in wrap(f"Recipes known to work for {family}:", width, ""))
    for number, recipe in enumerate(advice.recipes, 1):
        yield from list_recipe(number, recipe, (advice.stored, launched), width)
    if advice.recipes:
        first = advice.recipes[0]
        yield f"  Source, read {first.read}: {first.source}"


def list_recipe(number: int, recipe: Recipe, target: tuple[str, Launched], width: int) -> Iterator[str]:
    """Yield one recipe: what for, the command, and what else it needs."""
    stored, launched = target
    where = f"{recipe.nodes} nodes of " if recipe.nodes > 1 else ""
    gpus = "/".join(recipe.gpus)
    title = f"{number}. {recipe.goal}: {where}{recipe.number} x {gpus}"
    yield from (clean(line, width) for line in wrap(title, width, "  "))
    yield f"     {write_command(recipe, choose_model(recipe, stored, launched.folder))}"
    for need in list_needs(recipe, launched.table):
        yield from (clean(line, width) for line in wrap(f"needs {need}", width, "     "))


def choose_model(recipe: Recipe, stored: str, folder: str) -> str:
    """Return the model to launch: the folder at hand when the recipe is for such a checkpoint, else its own."""
    return folder if folder and recipe.format in {stored, "any"} else recipe.checkpoint


def list_needs(recipe: Recipe, table: FlagTable) -> Iterator[str]:
    """Yield what a recipe needs beside its command."""
    version = find_first_version(recipe, table)
    if version is not None:
        yield f"sglang {version} or newer (planned for: {table.version})"
    yield from recipe.packages
    if recipe.nodes > 1:
        yield "the same command on every node, with its own --node-rank and the first node's address for HEAD_IP"


def list_data(advice: Advice, launched: Launched) -> dict[str, object]:
    """Return the recipes as plain dictionaries and lists, for JSON."""
    recipes = [
        {
            **recipe._asdict(),
            "env": dict(recipe.env),
            "command": write_command(recipe, choose_model(recipe, advice.stored, launched.folder)),
            "needs": list(list_needs(recipe, launched.table)),
        }
        for recipe in advice.recipes
    ]
    return {"remark": advice.remark, "list": recipes}

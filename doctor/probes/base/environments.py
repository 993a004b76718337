"""The environment that a launch enters before its Python: an activate script, conda, or the runner of a project."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence

from doctor.launch.model import Command
from doctor.probes.base.context import Interpreter
from doctor.probes.base.files import is_program

_ACTIVATE = re.compile(r"""(?:^|[\s;&|("'])(?:source|\.)\s{1,9}["']?([^\s"';&|]{1,1000})/bin/activate\b""")
_CONDA = re.compile(r"""(?:^|[\s;&|("'])(?:conda|mamba|micromamba)\s{1,9}activate\s{1,9}["']?([^\s"';&|]{1,1000})""")
_CONDAS = frozenset({"conda", "mamba", "micromamba"})
_RUNNERS = frozenset({"uv", "poetry", "pdm", "pipenv", "hatch", "pixi", "rye"})
# Where installers of conda and its relatives put themselves.
_ROOTS = ("~/.conda", "~/miniconda3", "~/anaconda3", "~/miniforge3", "~/mambaforge", "~/micromamba", "/opt/conda")


def find_entered(command: Command, environment: Mapping[str, str]) -> Interpreter | None:
    """Return the Python of the environment that a launch enters, None when it enters none."""
    words = (*command.entry, *command.arguments)
    before = command.text[: words[0].start] if words else command.text
    activated = [match[1] for match in _ACTIVATE.finditer(before)]
    if activated:
        return take(expand(activated[-1], environment), "the launch activates")
    conda = next(list_conda(command, before), None)
    if conda is not None:
        return take(find_conda(expand(conda, environment), environment), "the conda environment of the launch is")
    return find_project([word.value for word in command.wrapper])


def find_project(values: Sequence[str]) -> Interpreter | None:
    """Return the Python of the project that a runner such as `uv run` would take, None without a runner."""
    runner = next((name for value in values if (name := os.path.basename(value)) in _RUNNERS), None)
    if runner is None:
        return None
    folder = next(read_options(values, "--project", "--directory"), ".")
    path = os.path.abspath(os.path.join(folder, ".venv", "bin", "python"))
    if is_program(path):
        return Interpreter(path, f"{runner} run: .venv of {os.path.abspath(folder)}")
    return Interpreter(None, f"{runner} chooses an environment of its own")


def read_options(values: Sequence[str], *names: str) -> Iterator[str]:
    """Yield what follows some options."""
    yield from (values[at + 1] for at, value in enumerate(values[:-1]) if value in names)


def expand(path: str, environment: Mapping[str, str]) -> str:
    """Put in HOME, which most paths begin with."""
    home = environment.get("HOME", "~")
    text = path.replace("${HOME}", home).replace("$HOME", home)
    return home + text[1:] if text == "~" or text.startswith("~/") else text


def take(folder: str, verb: str) -> Interpreter:
    """Return the Python of an environment's folder, or say that it is not here."""
    path = os.path.join(folder, "bin", "python")
    return (
        Interpreter(path, f"{verb} {folder}") if is_program(path) else Interpreter(None, f"{verb} {folder}, not here")
    )


def list_conda(command: Command, before: str) -> Iterator[str]:
    """Yield what `conda activate NAME`, `conda run -n NAME` and `conda run -p FOLDER` name."""
    yield from reversed([match[1] for match in _CONDA.finditer(before)])
    values = [word.value for word in command.wrapper]
    if _CONDAS & {os.path.basename(value) for value in values}:
        yield from read_options(values, "-n", "--name", "-p", "--prefix")


def find_conda(name: str, environment: Mapping[str, str]) -> str:
    """Return the folder of a conda environment: a folder itself, else the first of that name below conda's roots."""
    if "/" in name:
        return name
    program = environment.get("CONDA_EXE", "")
    given = (environment.get("MAMBA_ROOT_PREFIX", ""), os.path.dirname(os.path.dirname(program)))
    roots = [root for root in (*given, *(expand(root, environment) for root in _ROOTS)) if root]
    places = [root if name == "base" else os.path.join(root, "envs", name) for root in roots]
    return next((place for place in places if is_program(os.path.join(place, "bin", "python"))), name)

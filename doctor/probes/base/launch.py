"""Read the launch to judge: its command, environment, version and model folder."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping, Sequence

from doctor.errors import DoctorError
from doctor.launch.alloc_conf import VARIABLES
from doctor.launch.command import parse_command
from doctor.launch.flags import load_table
from doctor.launch.model import Command
from doctor.launch.uses import read_uses
from doctor.launch.values import is_open, read_values
from doctor.probes.base.context import Launch


def read_command(words: Sequence[str], model: str | None) -> Command | None:
    """Read the words after `--`; with --model alone, the plainest launch of that model. None without both.

    Raises DoctorError when the words hold no launch, and for an empty --model.
    """
    if words:
        command = parse_command(words[0] if len(words) == 1 and " " in words[0] else shlex.join(words))
        if model is not None:
            raise DoctorError("--model and a launch command are both given", "the command names its model already")
        return command
    if model == "":
        raise DoctorError("--model is empty", "give the model's folder, or its name on the hub")
    return None if model is None else parse_command(f"sglang serve --model-path {shlex.quote(model)}")


def overlay(environment: Mapping[str, str], command: Command | None) -> dict[str, str]:
    """Return the environment that the launch would find: what the command sets wins, what it unsets is gone."""
    merged = dict(environment)
    if command is not None:
        for name in command.layout.unset:
            merged.pop(name, None)
        for item in command.env:
            # `PATH=/srv/venv/bin:$PATH` is the one use of a variable whose value is known here
            own = merged.get(item.name, "")
            value = (item.value or "").replace(f"${{{item.name}}}", own).replace(f"${item.name}", own)
            if item.value is not None and not is_open(value):
                merged[item.name] = value
    return merged


def make_launch(command: Command, version: str | None, environment: Mapping[str, str]) -> Launch:
    """Read a command with the flags of a version, the newest when it is not known."""
    table = load_table(version)
    values = read_values(read_uses(command, table), table)
    names = (*VARIABLES, *(item.name for item in command.env))
    settings = {name: environment[name] for name in names if name in environment}
    return Launch(command, table, values, {**values.given, **settings})


def list_model_places(launch: Launch | None, environment: Mapping[str, str]) -> tuple[str, ...]:
    """Return where the model may lie: the folder itself, else its place in the Hugging Face cache."""
    name = launch.values.given.get("model_path") if launch else None
    if not isinstance(name, str) or "\0" in name or is_remote(name):
        return ()
    if name.startswith(("/", "./", "../", "~")) or name.count("/") != 1:
        return (os.path.expanduser(name),)
    return name, os.path.join(find_hub_cache(environment), "models--" + name.replace("/", "--"))


def list_caches(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the folders that a server writes to, by the variable that moves each.

    Those of Python's tempfile, huggingface_hub, SGLang 0.5.23's environ.py, flashinfer and Triton.
    """
    home = environment.get("HOME") or "/"
    return {
        "TMPDIR": environment.get("TMPDIR") or "/tmp",  # noqa: S108 - where Python's tempfile looks, too
        "HF_HOME": find_hub_cache(environment),
        "SGLANG_CACHE_DIR": environment.get("SGLANG_CACHE_DIR") or os.path.join(home, ".cache", "sglang"),
        "FLASHINFER_WORKSPACE_BASE": os.path.join(
            environment.get("FLASHINFER_WORKSPACE_BASE") or home, ".cache", "flashinfer"
        ),
        "TRITON_CACHE_DIR": environment.get("TRITON_CACHE_DIR") or os.path.join(home, ".triton"),
    }


def find_hub_cache(environment: Mapping[str, str]) -> str:
    """Return the folder of downloaded repositories (huggingface_hub: HF_HUB_CACHE, HF_HOME, ~/.cache)."""
    home = environment.get("HOME") or "/root"
    base = environment.get("HF_HOME") or os.path.join(
        environment.get("XDG_CACHE_HOME") or os.path.join(home, ".cache"), "huggingface"
    )
    return environment.get("HF_HUB_CACHE") or os.path.join(base, "hub")


def find_snapshot(repository: str, revision: str) -> str | None:
    """Return the folder of a revision (branch, tag or commit) of a cached repository, None when it is not there."""
    try:
        with open(os.path.join(repository, "refs", revision), encoding="utf-8") as stream:
            commit = stream.read(100).strip()
    except (OSError, ValueError):
        commit = revision
    folder = os.path.join(repository, "snapshots", commit)
    return folder if os.path.isdir(folder) else None


def is_remote(name: str) -> bool:
    """Tell an address such as s3://bucket/model, which SGLang reads through a connector."""
    return "://" in name

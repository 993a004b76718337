"""Find the launch command to correct, and read facts from it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from doctor.diagnosis.facts import Facts
from doctor.errors import DoctorError
from doctor.launch.command import parse_command
from doctor.launch.flags import Exact, Flag, FlagTable, Prefix
from doctor.launch.model import Command, Word
from doctor.launch.rebuild import rebuild_command
from doctor.launch.uses import read_uses


class Launch(NamedTuple):
    """The command a fix edits: where it comes from (given, log or server_args) and the command itself."""

    source: str
    command: Command


def find_launch(given: str | None, facts: Facts, table: FlagTable) -> Launch | None:
    """Take the command given by the user, else the one typed in the log, else rebuild it from the dump.

    Raises DoctorError when the given one cannot be read.
    """
    if given:
        return Launch("given", parse_command(given))
    typed = facts.get("command")
    if isinstance(typed, str):
        try:
            return Launch("log", parse_command(typed))
        except DoctorError:
            pass
    values = list_arguments(facts)
    if "model_path" in values:
        return Launch("server_args", rebuild_command(values, table))
    return None


def list_arguments(facts: Facts) -> dict[str, Any]:
    """Give the `args.` facts by field name."""
    return {name.removeprefix("args."): facts[name] for name in facts if name.startswith("args.")}


def add_command_facts(facts: Facts, launch: Launch | None, table: FlagTable) -> Facts:
    """Add `args.` facts for flags that the log's own dump does not hold, and `env.` facts; what the log says wins."""
    if launch is None or launch.source == "server_args":
        return facts
    values: dict[str, Any] = {f"env.{item.name}": item.value for item in launch.command.env if item.value is not None}
    values.update({f"args.{name}": value for name, value in read_arguments(launch.command, table).items()})
    values = {name: value for name, value in values.items() if name not in facts}
    flags = [word.value.partition("=")[0] for word in launch.command.arguments if word.value.startswith("--")]
    values["command.flags"] = flags
    values["command.image"] = next(
        (word.value for word in launch.command.wrapper if "sglang" in word.value and ":" in word.value), None
    )
    values["command.docker"] = any(word.value in ("docker", "podman") for word in launch.command.wrapper)
    return facts.with_values(values)


def read_arguments(command: Command, table: FlagTable) -> Mapping[str, Any]:
    """Read the flags of a command as fields of ServerArgs; what the table does not know is left out."""
    return {
        use.dest: read_argument(use.found.flag, use.values)
        for use in read_uses(command, table)
        if isinstance(use.found, Exact | Prefix) and use.dest
    }


def read_argument(flag: Flag, words: Sequence[Word]) -> Any:
    """Convert the words after a flag as argparse would; text that does not convert stays text."""
    if not flag.takes_value:
        return True if flag.const is None else flag.const
    values = [_convert(flag, word.value) for word in words]
    return values if flag.takes_many else values[0] if values else None


def _convert(flag: Flag, text: str) -> Any:
    try:
        return int(text) if flag.kind == "int" else float(text) if flag.kind == "float" else text
    except ValueError:
        return text

"""Read the file of `--config`, whose options SGLang puts in front of those on the command line."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from doctor.errors import DoctorError
from doctor.launch.flags import FlagTable
from doctor.launch.model import Command, Word
from doctor.launch.uses import is_positional_model, read_uses
from doctor.launch.yaml_text import Node, Scalar, column_of, match_key, read_node, split_lines

MAX_BYTES = 1_048_576


def read_config(path: Path) -> str:
    """Return the text of a config file. DoctorError for what SGLang refuses too: no YAML name, no such file.

    srt/utils/server_args_config_parser.py of 0.5.23 takes .yaml and .yml only.
    """
    if path.suffix.lower() not in {".yaml", ".yml"}:
        raise DoctorError(f"{path}: SGLang reads .yaml and .yml files only", hint="rename or convert the file")
    try:
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise DoctorError(f"{path}: {error.strerror or error}") from error
    if len(data) > MAX_BYTES:
        raise DoctorError(f"{path}: a config file of more than {MAX_BYTES} bytes")
    return data.decode("utf-8", errors="replace")


def merge_config(command: Command, text: str, table: FlagTable) -> Command:
    """Return the command with the options of a config file among its arguments, for checking only.

    Options that the command line sets too are left out, because it wins. The added words have no place in the
    text, so that edits must be applied to the original command.
    """
    given = {use.dest for use in read_uses(command, table)}
    added = []
    for words in list_options(text, table):
        flag = table.find(words[0])
        if flag is None or flag.dest not in given:
            added += [Word(word, 0, 0) for word in words]
    at = int(bool(command.arguments) and is_positional_model(command))
    arguments = command.arguments
    return command._replace(arguments=(*arguments[:at], *added, *arguments[at:]))


def list_options(text: str, table: FlagTable) -> Iterator[list[str]]:
    """Yield the words of each option of the file."""
    lines = split_lines(text)
    read_until = 0
    for at, line in enumerate(lines):
        if line.start < read_until or column_of(line) < 0 or line.text.strip() in {"---", "..."}:
            continue
        if match_key(line) is None:
            raise DoctorError(f"config file, line {at + 1}: not `option: value`: {line.text.strip()[:60]}")
        node = read_node(text, lines, at)
        read_until = max(node.end, *(below.end for below in node.lines), line.end)
        words = write_option(node, table)
        if words:
            yield words


def write_option(node: Node, table: FlagTable) -> list[str]:
    """Return the words for one option: a switch when it is true, nothing when it is false or empty."""
    name = f"--{node.key.replace('_', '-')}"
    flag = table.find(name)
    values = [read_value(item) for item in node.scalars]
    if node.kind == "map":
        raise DoctorError(f"config file: {node.key} has options of its own", hint="write them as one JSON text")
    if values in (["true"], ["false"]) and flag is not None and not flag.takes_value:
        return [name] if values == ["true"] else []
    return [name, *values] if values and values != ["null"] else []


def read_value(item: Scalar) -> str:
    """Return a scalar as SGLang's reader passes it on: YAML's other words for true and false become these."""
    words = {"yes": "true", "on": "true", "no": "false", "off": "false", "~": "null"}
    is_plain = item.quotes == ("y",)
    lowered = item.value.lower()
    return (
        words.get(lowered, lowered if lowered in {"true", "false", "null"} else item.value) if is_plain else item.value
    )

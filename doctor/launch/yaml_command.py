"""Find the launch command in docker compose or Kubernetes YAML, or in a JSON list of words."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence

from doctor.errors import DoctorError
from doctor.launch.entry import find_script, is_script
from doctor.launch.model import Command, EnvPlace, Word
from doctor.launch.shell_command import Source, build_command, read_shell, sort_words
from doctor.launch.shell_text import scan_tokens
from doctor.launch.yaml_env import find_env_place, read_environment
from doctor.launch.yaml_text import (
    Line,
    Node,
    Scalar,
    column_of,
    line_end,
    match_key,
    read_flow,
    read_node,
    split_lines,
)

# In the order in which their words come together; compose has the first two, Kubernetes the last two.
_COMMAND_KEYS = ("entrypoint", "command", "args", "extraArgs")
# Keys whose value is shell text, or a list of such lines: dstack, SkyPilot and GitHub, GitLab.
_SCRIPT_KEYS = ("commands", "run", "script")
_ENV_KEYS = ("environment", "env", "envs")
_KEYS = frozenset(_COMMAND_KEYS + _SCRIPT_KEYS + _ENV_KEYS)
_HINT = re.compile(r"(?m)^[ -]*[\"']?(?:entrypoint|command|args|extraArgs|commands|run|script)[\"']? *:(?: |\r?$)")
# A list of quoted words: JSON, a Dockerfile's (`ENTRYPOINT` first, then `CMD`), one in a program that starts SGLang.
_LIST = re.compile(r"\s*(?=\[\s*[\"'])")
_DOCKERFILE = re.compile(r"(?m)^[ \t]*(ENTRYPOINT|CMD)[ \t]*(?=\[\s*[\"'])")
_ARGS = re.compile(r"\bargs\"?\s{0,20}[:=]\s{0,20}(?=\[)")
_QUOTED_ENTRY = re.compile(
    r"[\"'](?:[^\s\"']{0,200}/)?(?:sglang\.launch_server|sglang_router\.launch_server|dynamo\.sglang|launch_server\.py"
    r"|sglang[\"']\s{0,20},\s{0,20}[\"']serve)[\"']"
)


def looks_like_yaml(text: str) -> bool:
    """Tell whether the text has a key that holds a command, or a list of quoted words that is one."""
    return _HINT.search(text) is not None or bool(find_lists(text))


def find_lists(text: str) -> list[int]:
    """Return where the lists of words begin that make up the command, none when it is written otherwise."""
    docker = {found[1]: found.end() for found in _DOCKERFILE.finditer(text)}
    if docker:
        return [docker[key] for key in ("ENTRYPOINT", "CMD") if key in docker]
    plain = _LIST.match(text)
    entry = _QUOTED_ENTRY.search(text)
    start = plain.end() if plain else find_bracket(text, entry.start()) if entry else -1
    args = _ARGS.search(text)
    return list(dict.fromkeys([start, *([args.end()] if args else [])])) if start >= 0 else []


def find_bracket(text: str, inside: int) -> int:
    """Return where the innermost list around an offset begins, -1 without one."""
    return text.rfind("[", text.rfind("]", 0, inside) + 1, inside)


def read_lists(text: str, starts: Sequence[int]) -> Command:
    """Parse lists of quoted words; what is not quoted in them is an expression of the program they stand in."""
    nodes = [read_flow(text, start, Node("command", 0, "flow", (), "", 0, ())) for start in starts]
    nodes = [node._replace(scalars=tuple(map(mark_expression, node.scalars))) for node in nodes if node.scalars]
    if not any(mentions_sglang(node) or has_flags(node) for node in nodes):
        raise no_command()
    scalars = nodes[0].scalars
    has_env = scalars[0].value == "env" and len(scalars) > 1
    place = EnvPlace("words", scalars[has_env].start, header="" if has_env else "env")
    return read_nodes(text, nodes, place)


def mark_expression(item: Scalar) -> Scalar:
    """Return an unquoted item as a value that is not known, in the form of a shell's."""
    return item._replace(value=f"${{{item.value}}}") if item.quotes == ("y",) else item


def read_yaml(text: str) -> Command:
    """Parse the command of the first service or container that launches SGLang."""
    starts = [] if _HINT.search(text) else find_lists(text)
    if starts:
        return read_lists(text, starts)
    lines = split_lines(text)
    services = list(read_services(text, lines))
    for is_wanted in (mentions_sglang, has_flags):
        for nodes in services:
            commands = [nodes[name] for name in _COMMAND_KEYS if name in nodes and nodes[name].scalars]
            commands = commands or [pick_script(nodes[name]) for name in _SCRIPT_KEYS if name in nodes]
            if any(is_wanted(node) for node in commands):
                return read_service(text, commands, nodes)
    raise no_command()


def read_services(text: str, lines: Sequence[Line]) -> Iterator[dict[str, Node]]:
    """Yield the keys of each mapping that has a command, once for each."""
    covered: dict[int, int] = {}
    for at, line in enumerate(lines):
        column = column_of(line)
        if is_command_key(line) and at > covered.get(column, -1):
            nodes, covered[column] = read_siblings(text, lines, at)
            yield nodes


class NoCommandError(DoctorError):
    """The YAML launches something else, or it is no YAML but text with a word such as `run:` in front of a line."""


def no_command() -> NoCommandError:
    """Build the error for YAML that launches something else."""
    return NoCommandError(
        "no command of SGLang in this YAML", hint="give the service or container with `command:` and `args:`"
    )


def is_command_key(line: Line) -> bool:
    """Tell whether a line has one of the keys that hold commands."""
    key = match_key(line)
    return key is not None and key.name in _COMMAND_KEYS + _SCRIPT_KEYS


def has_flags(node: Node) -> bool:
    """Tell whether a command has a long option."""
    return any("--" in item.value for item in node.scalars)


def mentions_sglang(node: Node) -> bool:
    """Tell whether a command is SGLang's: by its name, or by a flag that names a model."""
    return any("sglang" in item.value or "--model" in item.value for item in node.scalars)


def pick_script(node: Node) -> Node:
    """Return the node with the one of its shell lines that launches SGLang, as far as there is one."""
    found = next((item for item in node.scalars if is_script(item.value)), None)
    return node if found is None else node._replace(kind="scalar", scalars=(found,))


def read_siblings(text: str, lines: Sequence[Line], at: int) -> tuple[dict[str, Node], int]:
    """Read the keys in the mapping of line `at` that matter for a launch; return its last line too."""
    last = at
    column = column_of(lines[at])
    first = at
    while first > 0 and not is_item_start(lines[first], column) and is_inside(lines[first - 1], column):
        first -= 1
    nodes: dict[str, Node] = {}
    for number in range(first, len(lines)):
        line = lines[number]
        if number > at and (not is_inside(line, column) or is_item_start(line, column)):
            break
        key = match_key(line)
        if key and key.column == column and key.name in _KEYS and key.name not in nodes:
            nodes[key.name] = read_node(text, lines, number)
        last = number
    return nodes, last


def is_inside(line: Line, column: int) -> bool:
    """Tell whether a line can belong to the mapping whose keys begin at `column`."""
    return not 0 <= column_of(line) < column


def is_item_start(line: Line, column: int) -> bool:
    """Tell whether the mapping at `column` begins on this line, behind a list dash."""
    return column_of(line) == column and line.text[:column].rstrip().endswith("-")


def read_service(text: str, commands: Sequence[Node], nodes: dict[str, Node]) -> Command:
    """Parse the command of one service or container, with the environment next to it."""
    env = next((nodes[name] for name in _ENV_KEYS if name in nodes), None)
    found = find_env_place(env) if env else None
    if env is None or found is None:
        place = make_env_place(text, commands[-1], nodes.keys())
        return read_nodes(text, commands, place)
    command = read_nodes(text, commands, found)
    return command._replace(env=(*read_environment(text, env), *command.env))


def make_env_place(text: str, last: Node, names: Collection[str]) -> EnvPlace:
    """Return the place of an environment that is not there yet, below the command."""
    kubernetes = (
        not {"args", "extraArgs", "env"}.isdisjoint(names) or re.search(r"(?m)^ *containers:", text) is not None
    )
    indent = " " * last.column
    header = f"\n{indent}{'env' if kubernetes else 'environment'}:"
    return EnvPlace("named" if kubernetes else "map", line_end(text, last.end), indent + "  ", header)


def read_nodes(text: str, nodes: Sequence[Node], env: EnvPlace) -> Command:
    """Parse the words of one command; the last node is the one that new flags go to."""
    *before, last = nodes
    if last.kind == "scalar":
        command = read_shell(source_of(last.scalars[0]), text)
        command = add_before(command, [word for node in before for word in list_words(node)])
        return command._replace(layout=command.layout._replace(env=env))
    words = tuple(word for node in nodes for word in list_words(node))
    script = find_script(words)
    if script is not None:
        scalar = next(item for node in nodes for item in node.scalars if item.start == words[script].start)
        command = read_shell(source_of(scalar), text)
        command = command._replace(wrapper=words[:script] + command.wrapper)
        return command._replace(layout=command.layout._replace(env=env))
    parts = sort_words(words)
    command = build_command(parts, words, Source(text, int, ()), text)
    own = [item.start for item in last.scalars]
    layout = command.layout._replace(
        style="flow" if last.kind == "flow" else "list",
        env=env,
        wrap_at=parts.program if parts.program in own else None,
        flags_at=words[-1].end if last.kind == "flow" else line_end(text, words[-1].end),
        indent=last.indent,
    )
    return command._replace(layout=layout)


def source_of(scalar: Scalar) -> Source:
    """Return the shell text that a scalar holds."""
    return Source(scalar.value, scalar.offsets.__getitem__, scalar.quotes)


def add_before(command: Command, words: Sequence[Word]) -> Command:
    """Put the words of an earlier key in front: as entry point when the command itself is flags alone."""
    if not words:
        return command
    if command.entry:
        return command._replace(wrapper=(*words, *command.wrapper))
    parts = sort_words(tuple(words))
    return command._replace(wrapper=parts.wrapper, entry=parts.entry, arguments=parts.arguments + command.arguments)


def list_words(node: Node) -> Iterator[Word]:
    """Yield the words of a node: its items, or the shell words of its one scalar."""
    if node.kind != "scalar":
        yield from (Word(item.value, item.start, item.end) for item in node.scalars)
        return
    place = node.scalars[0].offsets
    for token in scan_tokens(node.scalars[0].value):
        if token.kind == "word":
            yield Word(token.value, place[token.start], place[token.end])

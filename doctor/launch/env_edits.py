"""Set and unset environment variables where a command sets its own: prefix, export, docker -e, YAML."""

from __future__ import annotations

import re

from doctor.launch.alloc_conf import VARIABLES, merge_alloc_conf
from doctor.launch.edits import Edit
from doctor.launch.model import Assignment, Command, EnvPlace
from doctor.launch.pieces import Splice, apply_splices, gap_before, list_joint, remove_piece, write_words
from doctor.launch.quoting import nest, quote_expandable, quote_shell, quote_yaml

# An environment key that has nothing below it any more: what follows is no deeper and no list item.
_EMPTY_ENV = re.compile(r"(?m)^( *)(?:environment|env): *\n(?!\1(?: |- ))")
QUOTES = ('"', "'")
# What a list of flags alone becomes when a variable has to be set in front of it; works in every version.
BARE_ENTRY = "python3 -m sglang.launch_server "


def edit_env(command: Command, edit: Edit) -> str:
    """Return the text of the command with one variable set, merged (PYTORCH_ALLOC_CONF) or unset."""
    names = VARIABLES if edit.name in VARIABLES else (edit.name,)
    present = [item for item in command.env if item.name in names]
    value = edit.after
    if value is not None and edit.name in VARIABLES:
        value = merge_alloc_conf((present[-1].value if present else None) or "", value) or None
        if value is None and not present:
            return command.text
    if value is None:
        return unset_variable(command, edit, present)
    if not present:
        return add_variable(command, edit.name, value)
    if present[-1].value == value:
        return command.text
    return apply_splices(command.text, [set_variable(command, present[-1], value)])


def set_variable(command: Command, item: Assignment, value: str) -> Splice:
    """Return the splice that gives a variable, set already, a new value."""
    like = command.text[item.value_start : item.value_end]
    if item.style == "named" and item.value is None:
        return Splice(item.start, item.end, write_variable(command.layout.env, item.name, value)[1:] + "\n")
    if item.style in {"map", "named"}:
        return Splice(item.value_start, item.value_end, quote_yaml(value, like if like[:1] in QUOTES else '"'))
    if item.style == "list":
        return Splice(item.value_start, item.value_end, quote_pair(item.name, value, like))
    if command.layout.style != "shell":
        return Splice(item.start, item.end, quote_pair(item.name, value, command.text[item.start : item.end]))
    at = command.text.find(item.name, item.start, item.end)
    if at > item.start and command.text[at - 1] in QUOTES and command.text[at - 1] not in item.quotes:
        at -= 1
    quoted = quote_expandable(value) if "$" in value else quote_shell(value, like)
    return Splice(at, item.value_end, nest(f"{item.name}={quoted}", item.quotes))


def quote_pair(name: str, value: str, like: str = "") -> str:
    """Write `NAME=value` as a YAML scalar."""
    pair = f"{name}={value}"
    return quote_yaml(pair, like) if like[:1] in QUOTES or "#" in pair or ": " in pair else pair


def add_variable(command: Command, name: str, value: str) -> str:
    """Return the text with a variable set that was not there."""
    layout, env = command.layout, command.layout.env
    pair = f"{name}={quote_shell(value)}"
    if env.style == "docker":
        gap = gap_before(command, env.at)
        new = nest(f"-e {pair}", env.quotes) + (gap if "\n" in gap else " ")
    elif env.style == "prefix":
        new = nest(f"{env.header}{pair} {BARE_ENTRY if layout.wrap_at is None else ''}", env.quotes)
    elif env.style == "words":
        words = (env.header, f"{name}={value}") if env.header else (f"{name}={value}",)
        new = write_words(command, words) + list_joint(layout)
    else:
        new = env.header + write_variable(env, name, value)
    return apply_splices(command.text, [Splice(env.at, env.at, new)])


def write_variable(env: EnvPlace, name: str, value: str) -> str:
    """Return the lines of YAML that set a variable, with the newline in front of them; on one line, the item."""
    if env.style == "braces":
        return f"{name}: {quote_yaml(value, QUOTES[0])}, "
    if env.style == "brackets":
        return f"{quote_yaml(f'{name}={value}', QUOTES[0])}, "
    if env.style == "map":
        return f"\n{env.indent}{name}: {quote_yaml(value, QUOTES[0])}"
    if env.style == "named":
        return f"\n{env.indent}- name: {name}\n{env.indent}  value: {quote_yaml(value, QUOTES[0])}"
    return f"\n{env.indent}- {quote_pair(name, value)}"


def unset_variable(command: Command, edit: Edit, present: list[Assignment]) -> str:
    """Return the text without the variable; `env -u` in front of the program when it comes from outside."""
    if present:
        text = apply_splices(command.text, [drop_assignment(command, item) for item in present])
        return _EMPTY_ENV.sub("", text) if is_yaml(present[-1]) else text
    layout = command.layout
    if edit.before is not None or edit.name in layout.unset or layout.wrap_at is None:
        return command.text
    joint = " " if layout.style == "shell" else list_joint(layout)
    begun = any(command.text.endswith(f"-u {name} ", 0, layout.wrap_at) for name in layout.unset)
    new = write_words(command, ("-u", edit.name) if begun else ("env", "-u", edit.name)) + joint
    return apply_splices(command.text, [Splice(layout.wrap_at, layout.wrap_at, new)])


def is_yaml(item: Assignment) -> bool:
    """Tell whether the variable stands on lines of its own in YAML."""
    return item.style in {"map", "list", "named"}


def drop_assignment(command: Command, item: Assignment) -> Splice:
    """Return the splice that takes out an assignment with the blanks behind it; in YAML it has whole lines."""
    if command.layout.style != "shell" and not is_yaml(item):
        return remove_piece(command, item.start, item.end)
    rest = command.text[item.end :]
    is_line = is_yaml(item) or command.text[item.end - 1 : item.end] == "\n"
    blanks = 0 if is_line else len(rest) - len(rest.lstrip(" \t\\\r\n"))
    return Splice(item.start, item.end + blanks, "")

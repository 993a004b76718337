"""Set and unset environment variables where a command sets its own: prefix, export, docker -e, YAML."""

from __future__ import annotations

from doctor.launch.alloc_conf import VARIABLES, merge_alloc_conf
from doctor.launch.edits import Edit
from doctor.launch.model import Assignment, Command
from doctor.launch.pieces import Splice, apply_splices, gap_before, write_words
from doctor.launch.quoting import nest, quote_expandable, quote_shell, quote_yaml

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
    if present:
        return set_variable(command, present[-1], value)
    return add_variable(command, edit.name, value)


def set_variable(command: Command, item: Assignment, value: str) -> str:
    """Return the text with a new value for a variable that is set already."""
    if item.value == value:
        return command.text
    if command.layout.env_style in {"map", "list", "named"} and item.value_start >= 0:
        return set_yaml(command, item, value)
    text = command.text
    at = text.find(item.name, item.start, item.end)
    at -= at > 0 and text[at - 1] in "'\"" and text[at - 1] not in command.layout.quotes
    like = text[item.value_start : item.value_end]
    quoted = quote_expandable(value) if "$" in value else quote_shell(value, like)
    new = nest(f"{item.name}={quoted}", inner_quotes(command, item))
    return apply_splices(text, [Splice(at, item.value_end, new)])


def inner_quotes(command: Command, item: Assignment) -> tuple[str, ...]:
    """Return the quotes around an assignment: those of `bash -c` only for the ones inside its script."""
    quotes = command.layout.quotes
    first = command.entry or command.arguments
    is_inside = bool(first) and gap_quote(command.text, item.start, first[0].start) == ""
    return quotes if is_inside else quotes[:-1]


def gap_quote(text: str, start: int, end: int) -> str:
    """Return the quote that opens between an assignment and the program, "" when both are on the same side."""
    between = text[start:end]
    return next((mark for mark in ("-c '", '-c "') if mark in between), "")


def set_yaml(command: Command, item: Assignment, value: str) -> str:
    """Return the text with a new value in a YAML environment."""
    like = command.text[item.value_start : item.value_end]
    is_pair = command.layout.env_style == "list"
    new = value if is_pair and like[:1] not in {'"', "'"} else quote_yaml(value, like or '"')
    return apply_splices(command.text, [Splice(item.value_start, item.value_end, new)])


def add_variable(command: Command, name: str, value: str) -> str:
    """Return the text with a variable set that was not there."""
    layout, text = command.layout, command.text
    at = layout.env_at
    pair = f"{name}={quote_shell(value)}"
    if layout.env_style == "docker":
        gap = gap_before(command, at)
        new = f"-e {pair}{gap if chr(10) in gap else ' '}"
    elif layout.env_style == "prefix":
        entry = BARE_ENTRY if layout.wrap_at is None else ""
        new = nest(f"{pair} {entry}", layout.quotes)
    else:
        new = yaml_variable(layout.env_style, layout.indent, name, value)
    return apply_splices(text, [Splice(at, at, new)])


def yaml_variable(style: str, indent: str, name: str, value: str) -> str:
    """Return the lines of YAML that set a variable, with the newline in front of them."""
    if style == "map":
        return f"\n{indent}{name}: {quote_yaml(value, chr(34))}"
    if style == "named":
        return f"\n{indent}- name: {name}\n{indent}  value: {quote_yaml(value, chr(34))}"
    return f"\n{indent}- {name}={value}"


def unset_variable(command: Command, edit: Edit, present: list[Assignment]) -> str:
    """Return the text without the variable; `env -u` in front of the program when it comes from outside."""
    if present:
        return apply_splices(command.text, [drop_assignment(command, item) for item in present])
    layout = command.layout
    if edit.before is not None or edit.name in layout.unset or layout.wrap_at is None:
        return command.text
    words = ("env", "-u", edit.name)
    joint = " " if layout.style == "shell" else ", " if layout.style == "flow" else f"\n{layout.indent}- "
    return apply_splices(
        command.text, [Splice(layout.wrap_at, layout.wrap_at, write_words(command, words) + joint)]
    )


def drop_assignment(command: Command, item: Assignment) -> Splice:
    """Return the splice that takes out an assignment with the blanks behind it, or its whole line."""
    rest = command.text[item.end :]
    blanks = len(rest) - len(
        rest.lstrip(" \t\\\r\n" if not command.text[item.end - 1 : item.end] == "\n" else "")
    )
    return Splice(item.start, item.end + blanks, "")

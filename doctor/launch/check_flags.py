"""Check the flags of a command one by one: does this version have them, and do they take such a value."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from doctor.launch.edits import Edit
from doctor.launch.flags import Ambiguous, Exact, Flag, FlagTable, Prefix, Unknown, known_versions, load_table
from doctor.launch.problem import Problem
from doctor.launch.removed import find_removed
from doctor.launch.uses import FlagUse, is_value
from doctor.launch.values import convert, is_open, repair_json
from doctor.launch.versions import sort_key

# `sglang serve` takes this one itself, before SGLang's parser sees the rest (cli/serve.py, since 0.5.6).
SERVE_FLAGS = frozenset({"--model-type"})
# Flags of sglang_router.launch_server, which takes all of SGLang's besides.
ROUTER_PREFIXES = ("--router-", "--worker-", "--dp-minimum-")
# Programs that take all of SGLang's flags and more of their own, for which there is no table.
EXTENDING = ("dynamo.", "sglang.bench_", "sglang.compile_")

# `{port}` in a command that a Python program formats.
_FIELD = re.compile(r"\{[\w.\[\]()]{1,60}\}")


def check_uses(uses: Sequence[FlagUse], table: FlagTable, entry: str) -> Iterator[Problem]:
    """Yield the problems of single flags; `entry` is the last word of the entry point, "" without one."""
    for use in uses:
        if use.typed and not is_for_entry(use.typed, entry) and not may_be_own(use, entry):
            yield from check_use(use, table)
    yield from check_repeats(uses)
    is_complete = any(use.dest in {"model_path", "config", "help"} or is_left_open(use) for use in uses)
    if entry and not is_complete:
        yield Problem("missing", "error", "--model-path", describe_missing(entry))


def describe_missing(entry: str) -> str:
    """Say where the model belongs."""
    first = "first, behind `serve`, or as " if entry == "serve" else "as "
    return f"no model is given; it comes {first}--model-path MODEL"


def is_left_open(use: FlagUse) -> bool:
    """Tell a word such as `...` or `"${ARGS[@]}"` that stands for flags."""
    return not use.typed and is_open(use.values[0].value)


def is_for_entry(typed: str, entry: str) -> bool:
    """Tell whether the entry point itself takes the flag."""
    return typed in SERVE_FLAGS if entry == "serve" else "router" in entry and typed.startswith(ROUTER_PREFIXES)


def may_be_own(use: FlagUse, entry: str) -> bool:
    """Tell whether a flag that SGLang lacks may be one of the program that starts it."""
    return entry.startswith(EXTENDING) and not isinstance(use.found, Exact)


def check_use(use: FlagUse, table: FlagTable) -> Iterator[Problem]:
    """Yield the problems of one flag."""
    if isinstance(use.found, Exact | Prefix):
        flag = use.found.flag
        yield from check_value(use, flag)
        if flag.deprecated:
            yield describe_deprecated(use, flag, table)
        return
    gone = find_removed(use.typed, table.version)
    if gone is not None:
        fixes = replace_flag(use, gone.replacement, table)
        instead = f"use {' '.join(gone.replacement)}" if gone.replacement else "leave it out"
        why = f"; {gone.why}" if gone.why else ""
        message = f"SGLang {table.version} has no {use.typed} (last in {gone.last}): {instead}{why}"
        yield Problem("removed", "error", use.typed, message, fixes)
    elif isinstance(use.found, Ambiguous):
        options = ", ".join(use.found.options[:6])
        size = f"{use.typed}-size"
        fixes = replace_flag(use, (size,), table) if size in use.found.options else ()
        message = f"{use.typed} could be {options}; write one of them in full"
        yield Problem("ambiguous", "error", use.typed, message, fixes)
    else:
        yield describe_unknown(use, table)


def describe_unknown(use: FlagUse, table: FlagTable) -> Problem:
    """Describe a flag that the version does not have and never removed."""
    since = next((version for version in known_versions() if is_new_in(use.typed, version, table)), None)
    nearest = table.nearest(use.typed)
    if since is not None:
        message = f"SGLang {table.version} has no {use.typed}; it came with {since}"
        return Problem("unknown", "error", use.typed, message, (remove(use),))
    if not nearest:
        return Problem("unknown", "error", use.typed, f"SGLang {table.version} has no {use.typed}", (remove(use),))
    message = f"SGLang {table.version} has no {use.typed}; nearest: {', '.join(nearest)}"
    return Problem("unknown", "error", use.typed, message, replace_flag(use, nearest[:1], table))


def is_new_in(name: str, version: str, table: FlagTable) -> bool:
    """Tell whether a later version has the flag."""
    return sort_key(version) > sort_key(table.version) and isinstance(load_table(version).resolve(name), Exact)


def remove(use: FlagUse) -> Edit:
    """Return the edit that takes a flag out."""
    return Edit("flag", use.typed, " ".join(word.value for word in use.values), None)


def replace_flag(use: FlagUse, names: Sequence[str], table: FlagTable) -> tuple[Edit, ...]:
    """Return the edits that put other flags in the place of one; a bare name takes over the value.

    None when the new flag needs a value that the old one does not have.
    """
    edits = [remove(use)]
    for name in names:
        plain, _, fixed = name.partition("=")
        flag = table.find(plain)
        value = fixed or " ".join(word.value for word in use.values)
        if flag is None or (flag.takes_value and not value):
            return ()
        edits.append(Edit("flag", flag.name, None, value if flag.takes_value else ""))
    return tuple(edits)


def describe_deprecated(use: FlagUse, flag: Flag, table: FlagTable) -> Problem:
    """Describe a flag that works but is going away."""
    instead = f"; use {flag.replaced_by}" if flag.replaced_by else ""
    message = f"{use.typed} is deprecated in {table.version}{instead}"
    is_open_ended = flag.replaced_by is None or "<" in flag.replaced_by
    fixes = () if is_open_ended else replace_flag(use, expand_braces(flag.replaced_by or ""), table)
    return Problem("deprecated", "warning", use.typed, message, fixes)


def expand_braces(text: str) -> list[str]:
    """Expand `--a-{b,c}=d`, as SGLang abbreviates two flags, to both of them."""
    found = re.search(r"\{([\w,-]+)\}", text)
    return [text.replace(found[0], part) for part in found[1].split(",")] if found else [text]


def check_value(use: FlagUse, flag: Flag) -> Iterator[Problem]:
    """Yield what is wrong with the values of a flag."""
    words = [word.value for word in use.values]
    if words and not flag.takes_value:
        fix = remove(use) if words[0].lower() == "false" else Edit("flag", flag.name, words[0], "")
        yield Problem("type", "error", use.typed, f"{use.typed} takes no value: it is on when it is there", (fix,))
    elif not words and flag.takes_value and flag.nargs not in {"*", "?"}:
        yield Problem("missing", "error", use.typed, f"{use.typed} needs a value", (remove(use),))
    for word in words if flag.takes_value else ():
        yield from check_word(use, flag, word)


def check_word(use: FlagUse, flag: Flag, word: str) -> Iterator[Problem]:
    """Yield what is wrong with one value; one that is not filled in yet cannot be wrong."""
    if is_open(word) or (flag.kind != "json" and _FIELD.fullmatch(word)):
        return
    try:
        value = convert(word, flag.kind)
    except ValueError:
        kinds = {"int": "a whole number", "float": "a number", "human-int": "a number such as 8192 or 128k"}
        repaired = repair_json(word) if flag.kind == "json" else None
        what = kinds.get(flag.kind, "JSON in single quotes" if repaired else "JSON")
        fix = Edit("flag", flag.name, word, repaired) if repaired else remove(use)
        yield Problem("type", "error", use.typed, f"{use.typed} takes {what}, not {word!r}", (fix,))
        return
    if flag.choices and value not in flag.choices:
        import difflib

        near = difflib.get_close_matches(word, [str(choice) for choice in flag.choices], n=1)
        listed = ", ".join(str(choice) for choice in flag.choices[:12])
        more = ", …" if len(flag.choices) > 12 else ""
        fix = Edit("flag", flag.name, word, near[0]) if near and not flag.takes_many else remove(use)
        message = f"{use.typed} does not take {word!r}, but {listed}{more}"
        yield Problem("choice", "error", use.typed, message, (fix,))


def check_repeats(uses: Sequence[FlagUse]) -> Iterator[Problem]:
    """Yield the fields that are set more than once: the last one counts, silently."""
    last_uses = {use.dest: use for use in uses}
    repeated = dict.fromkeys(use.dest for use in uses if use is not last_uses[use.dest])
    for last in (last_uses[dest] for dest in repeated):
        if isinstance(last.found, Exact | Prefix):
            name = last.found.flag.name
            value = " ".join(word.value for word in last.values)
            message = f"{last.typed or 'the model'} is given more than once; the last one counts"
            yield Problem("duplicate", "warning", last.typed or name, message, (Edit("flag", name, None, value),))


def list_stray(uses: Sequence[FlagUse], table: FlagTable) -> Iterator[Problem]:
    """Yield the words that belong to no flag, which argparse refuses."""
    for use in uses:
        if not use.typed and isinstance(use.found, Unknown):
            word = use.values[0].value
            if is_value(word, table) and not is_open(word):
                yield Problem("unknown", "error", word, f"{word!r} belongs to no flag; quotes missing?")

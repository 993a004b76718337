"""Rebuild a launch command from the server_args that SGLang prints, as short as a user would type it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from doctor.launch.automatic import is_automatic
from doctor.launch.command import Command, parse_command
from doctor.launch.flags import Flag, FlagTable
from doctor.launch.quoting import quote_shell
from doctor.launch.versions import sort_key

# `sglang serve` is the recommended entry point from this version on (srt/launch_server.py).
FIRST_SERVE = "0.5.10"
REDACTED = "<redacted>"
SECRET_FIELDS = frozenset({"api_key", "admin_api_key", "ssl_keyfile_password"})
SECRET_VARIABLE = re.compile(r"TOKEN|API_?KEY|SECRET|PASSWORD|CREDENTIAL", re.IGNORECASE)
# These come first, in this order; the others follow as the dump has them.
LEADING = ("model_path", "trust_remote_code", "tp_size", "dp_size", "pp_size", "ep_size")
_LORA_REF = re.compile(r"lora_name='([^']*)'.*?lora_path='([^']*)'")


def rebuild_command(
    server_args: Mapping[str, object], table: FlagTable, env: Mapping[str, str] | None = None
) -> Command:
    """Return a command that gives these arguments, without defaults and without what SGLang chose by itself.

    `server_args` holds the resolved values of a dump; fields without a flag in `table` are left out. Secrets
    are printed as `<redacted>`. `env` becomes the prefix of the command.
    """
    entry = "sglang serve" if sort_key(table.version) >= sort_key(FIRST_SERVE) else "python3 -m sglang.launch_server"
    names = [*LEADING, *(name for name in server_args if name not in LEADING)]
    words = [word for name in names if name in server_args for word in write_field(name, server_args, table)]
    prefix = [f"{name}={quote_shell(hide_variable(name, value))}" for name, value in (env or {}).items()]
    return parse_command(" ".join([*prefix, entry, *map(quote_shell, words)]))


def hide_variable(name: str, value: str) -> str:
    """Return the value of an environment variable, or a placeholder for a secret."""
    return REDACTED if SECRET_VARIABLE.search(name) else value


def write_field(name: str, args: Mapping[str, Any], table: FlagTable) -> Iterator[str]:
    """Yield the words that set one field, none when it need not be set."""
    flag = table.find_dest(name)
    value = args[name]
    if flag is None or value in (flag.default, flag.fallback) or is_automatic(name, value, args):
        return
    if isinstance(value, bool) and not flag.takes_value:
        yield from write_switch(flag, turned_on=value)
    elif value is not None and value not in ([], {}, (), "", False):
        option = choose_option(flag)
        yield option
        yield from [REDACTED] if name in SECRET_FIELDS else write_values(flag, value)


def choose_option(flag: Flag) -> str:
    """Return the flag's name that spells its field, such as `--tp-size`; else its first one."""
    plain = f"--{flag.dest.replace('_', '-')}"
    return plain if plain in flag.aliases else flag.name


def write_switch(flag: Flag, *, turned_on: bool) -> Iterator[str]:
    """Yield the form of a switch that says yes or no; a plain one cannot say no."""
    negated = next((name for name in flag.aliases if name.startswith("--no-")), None)
    if turned_on:
        yield flag.name
    elif negated and flag.default is not None:
        yield negated


def write_values(flag: Flag, value: Any) -> Iterator[str]:
    """Yield the values as the command line spells them."""
    if flag.dest == "lora_paths":
        yield from map(write_lora, value if isinstance(value, list | tuple) else [value])
    elif flag.kind == "json" or isinstance(value, dict):
        yield value if isinstance(value, str) else json.dumps(value)
    elif isinstance(value, list | tuple | set | frozenset):
        items = sorted(value) if isinstance(value, set | frozenset) else value
        yield from map(write_scalar, items)
    else:
        yield write_scalar(value)


def write_scalar(value: Any) -> str:
    """Return a value as people type it: `20`, not `20.0`."""
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def write_lora(reference: Any) -> str:
    """Return `name=path` for one adapter, however the dump shows it."""
    found = _LORA_REF.search(str(reference)[:4096])
    return f"{found[1]}={found[2]}" if found else str(reference)

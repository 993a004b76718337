"""Turn what stands after `--` into something to start, and read from it what the watchdog must know."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from doctor.errors import DoctorError

if TYPE_CHECKING:
    from doctor.launch.edits import Edit
    from doctor.launch.model import Command

_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=")
DEFAULT_PORT = 30000


class Launch(NamedTuple):
    """A launch: the words as typed, the program with its arguments, variables in front of it, and flags by field.

    `command` is None where nothing in it looks like SGLang; `arguments` then is empty.
    """

    words: tuple[str, ...]
    argv: tuple[str, ...]
    variables: Mapping[str, str]
    command: Command | None
    arguments: Mapping[str, Any]

    @property
    def text(self) -> str:
        """The command as one line for a shell."""
        return shlex.join(self.words)


class Address(NamedTuple):
    """Where the server answers: `host` for a client, and the key it asks for (None: none)."""

    host: str
    port: int
    secure: bool = False
    key: str | None = None


def read_launch(words: Sequence[str]) -> Launch:
    """Read a launch; bare SGLang arguments get `sglang serve`, or this Python's module, in front.

    Raises DoctorError when there is nothing to start.
    """
    if not words:
        raise DoctorError("nothing to run", "doctor run -- sglang serve --model-path MODEL")
    count = next((at for at, word in enumerate(words) if not _ASSIGNMENT.match(word)), len(words))
    variables = dict(word.split("=", 1) for word in words[:count])
    rest = tuple(words[count:])
    if not rest:
        raise DoctorError("there are only variables and no command after --", "add the command that starts the server")
    argv = (*find_entry(), *rest) if rest[0].startswith("-") else rest
    typed = (*words[:count], *argv)
    command, arguments = _read_command(shlex.join(typed))
    return Launch(typed, argv, variables, command, arguments)


def find_entry() -> tuple[str, ...]:
    """Give the program for bare arguments: `sglang serve` (0.5.10 and later), else the module."""
    if shutil.which("sglang"):
        return "sglang", "serve"
    return (shutil.which("python3") or sys.executable), "-m", "sglang.launch_server"


def _read_command(text: str) -> tuple[Command | None, Mapping[str, Any]]:
    from doctor.diagnosis.commands import read_arguments
    from doctor.launch.command import parse_command
    from doctor.launch.flags import load_table

    try:
        command = parse_command(text)
    except DoctorError:
        return None, {}
    is_sglang = bool(command.entry) or "--model" in text
    return (command, read_arguments(command, load_table(None))) if is_sglang else (None, {})


def mend(launch: Launch, edits: Sequence[Edit], version: str | None) -> Launch | None:
    """Apply edits to a launch; None when they change nothing or cannot be applied."""
    from doctor.launch.flags import load_table
    from doctor.launch.render import apply_edits

    if launch.command is None:
        return None
    try:
        text = apply_edits(launch.command, edits, load_table(version))
        words = shlex.split(text)
    except (DoctorError, ValueError):
        return None
    return read_launch(words) if tuple(words) != launch.words else None


def find_address(arguments: Mapping[str, Any], known: Mapping[str, Any]) -> Address:
    """Give the address to probe; what the server's own dump says (`known`) wins over the command, but for its key."""
    merged = {**arguments, **{name: value for name, value in known.items() if value is not None}}
    host = str(merged.get("host") or "127.0.0.1")
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)  # noqa: S104 - what servers bind to
    port = merged.get("port")
    key = arguments.get("api_key")
    return Address(
        host,
        port if isinstance(port, int) and 0 < port < 65536 else DEFAULT_PORT,
        bool(merged.get("ssl_certfile")),
        key if isinstance(key, str) else None,
    )


def find_proxy(environment: Mapping[str, str], address: Address) -> str:
    """Name the variable whose proxy would get a request to it, as requests and urllib read them; "" for none."""
    from doctor.probes.proxy import is_excepted

    scheme = "https" if address.secure else "http"
    wanted = (f"{scheme}_proxy", f"{scheme}_proxy".upper(), "all_proxy", "ALL_PROXY")
    names = [name for name in wanted if environment.get(name)]
    exceptions = environment.get("no_proxy") or environment.get("NO_PROXY") or ""
    return names[0] if names and not is_excepted(address.host, exceptions) else ""


def check_executable(launch: Launch, environment: Mapping[str, str]) -> None:
    """Raise DoctorError for a program that is not there or may not be run."""
    program = launch.argv[0]
    path = {**environment, **launch.variables}.get("PATH", os.defpath)
    if shutil.which(program, path=path) is None:
        raise DoctorError(f"{program}: no such program", "give its full path, or activate the environment it is in")

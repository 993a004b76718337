"""Find the Python that would run SGLang: the one of the launch, never the doctor's own by accident."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator, Mapping

from doctor.errors import DoctorError
from doctor.launch.model import Command
from doctor.probes.base.context import Interpreter
from doctor.probes.base.environments import find_entered
from doctor.probes.base.files import is_program

_CONTAINERS = frozenset({"docker", "podman", "nerdctl", "kubectl"})
_PYTHON = re.compile(r"(?:python[\d.]*|pypy3?)")
# pip writes a shell stub instead of a shebang when the path is too long for the kernel (128 bytes) or has a blank.
_STUB = re.compile(r"""'''exec' "?([^"'\n]+?)"? "\$0" "\$@\"""")


def find_interpreter(given: str | None, command: Command | None, environment: Mapping[str, str]) -> Interpreter:
    """Take --python, else the launch's own, else the environment's; raises DoctorError for a wrong one and for ssh."""
    if given is not None:
        return take_given(given, environment)
    if command is not None:
        if is_in_container(command):
            return Interpreter(None, "the launch runs in a container: run the check inside it", in_container=True)
        if any(os.path.basename(word.value) == "ssh" for word in command.wrapper):
            raise DoctorError("the launch runs on another machine (ssh)", "run doctor check there, without the ssh")
        found = find_in_command(command, environment)
        if found is not None:
            return found
    return next(search(environment), Interpreter(None, "there is no python3 on PATH"))


def take_given(given: str, environment: Mapping[str, str]) -> Interpreter:
    """Take a Python, by path or by its name on PATH, or a virtual environment's folder that the user names."""
    path = os.path.join(given, "bin", "python") if os.path.isdir(given) else which(given, environment) or given
    if not is_program(path):
        raise DoctorError(f"--python {given}: no interpreter there", "give the path of a python or of its venv")
    return Interpreter(path, "--python")


def is_in_container(command: Command) -> bool:
    """Tell whether the launch starts a container, in which everything may be different."""
    names = {os.path.basename(word.value) for word in command.wrapper}
    return bool(names & _CONTAINERS) or is_yaml(command)


def is_yaml(command: Command) -> bool:
    """Tell a command that stands in the YAML of a pod or a compose file, as a list or as one text."""
    return command.layout.style != "shell" or any(quote.startswith("y") for quote in command.layout.quotes)


def find_in_command(command: Command, environment: Mapping[str, str]) -> Interpreter | None:
    """Follow the program of the launch: a Python, or a script whose first line names one."""
    words = [*command.entry, *command.wrapper]
    entered = None if command.entry and "/" in command.entry[0].value else find_entered(command, environment)
    if entered is not None:
        return entered
    for word in words[:1] if command.entry else words[:4]:
        path = which(word.value, environment)
        if path and _PYTHON.fullmatch(os.path.basename(path)):
            return Interpreter(path, "the launch command")
        inner = read_shebang(path, environment) if path else None
        if inner:
            return Interpreter(inner, f"the first line of {path}")
    return None


def search(environment: Mapping[str, str]) -> Iterator[Interpreter]:
    """Yield the Pythons that a launch typed in this shell would most likely get."""
    venv = environment.get("VIRTUAL_ENV") or environment.get("CONDA_PREFIX") or ""
    if venv and is_program(os.path.join(venv, "bin", "python")):
        yield Interpreter(os.path.join(venv, "bin", "python"), "the active environment")
    script = which("sglang", environment)
    inner = read_shebang(script, environment) if script else None
    if inner:
        yield Interpreter(inner, f"the first line of {script}")
    for name in ("python3", "python"):
        path = which(name, environment)
        if path:
            yield Interpreter(path, f"{name} on PATH")
    yield Interpreter(sys.executable, "the doctor's own")


def which(name: str, environment: Mapping[str, str]) -> str | None:
    """Return the program that a name starts, None when there is none."""
    if "/" in name:
        path = os.path.expanduser(name)
        return path if is_program(path) else None
    folders = environment.get("PATH", os.defpath).split(os.pathsep)
    return next((path for folder in folders if is_program(path := os.path.join(folder or ".", name))), None)


def read_shebang(path: str, environment: Mapping[str, str]) -> str | None:
    """Return the Python that a script's first lines name; None for binaries and shell scripts."""
    try:
        with open(path, "rb") as stream:
            head = stream.read(2048).decode("utf-8", "replace")
    except OSError:
        return None
    stub = _STUB.search(head)
    words = [stub[1]] if stub else head.split("\n", 1)[0].removeprefix("#!").split()
    if not head.startswith("#!") or not words:
        return None
    program = words[-1] if os.path.basename(words[0]) == "env" else words[0]
    return which(program, environment) if _PYTHON.fullmatch(os.path.basename(program)) else None

"""The words in front of a program that set its environment, and the place for one more variable."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from doctor.launch.entry import name_program
from doctor.launch.model import Assignment, EnvPlace, Word, read_assignment

_PROGRAMS = frozenset({"env", "sudo", "exec", "time"})
# Their options that take a value (sudo 1.9, coreutils 9, bash 5).
_VALUED = frozenset(
    {"-u", "-g", "-p", "-C", "-D", "-h", "-R", "-r", "-T", "-t", "-U", "-a", "--user", "--group", "--chdir", "--host"}
)
# Programs whose child does not get the environment that they were started with.
_REMOTE = frozenset({"ssh", "kubectl", "oc", "ray", "wsl", "wsl.exe", "mpirun", "mpiexec", "pdsh", "tmux"})
# Where wrappers are told a variable for their child. Docker has a reader of its own.
_ENV_OPTIONS = {
    "kubectl": "--env",
    "oc": "--env",
    "apptainer": "--env",
    "singularity": "--env",
    "mpirun": "-x",
    "mpiexec": "-x",
}


class Prefix(NamedTuple):
    """What stands in front of a program: `length` words in all, and the index where a new variable goes."""

    env: tuple[Assignment, ...]
    length: int
    unset: tuple[str, ...]
    place: int


def read_prefix(words: Sequence[Word]) -> Prefix:
    """Read leading `A=1 sudo -E env -u B C=2`. A variable behind `exec` would be taken for the program."""
    env: list[Assignment] = []
    unset: list[str] = []
    at, program, place = 0, "", None
    while at < len(words):
        value = words[at].value
        assignment = read_assignment(words[at], words[at])
        if assignment:
            env.append(assignment)
        elif name_program(value) in _PROGRAMS:
            program = name_program(value)
            place = at if program == "exec" else None
        elif program == "env" and value in {"-u", "--unset"} and at + 1 < len(words):
            at += 1
            unset.append(words[at].value)
        elif program and value in _VALUED:
            at += 1
        elif not (program and value.startswith("-")):
            break
        at += 1
    length = min(at, len(words))
    return Prefix(tuple(env), length, tuple(unset), length if place is None else place)


def find_late_env(words: Sequence[Word]) -> int | None:
    """Return the index of the `env` or `sudo` behind other wrappers (`srun ... env A=1 python`)."""
    return next((at for at, word in enumerate(words) if name_program(word.value) in {"env", "sudo"}), None)


def read_late_prefix(words: Sequence[Word]) -> Prefix:
    """Read what the `env` behind other wrappers sets and unsets, or `A=1` right in front of the program."""
    at = find_late_env(words)
    start = len(words)
    while at is None and start > 0 and read_assignment(words[start - 1], words[start - 1]):
        start -= 1
    return read_prefix(words[start if at is None else at :])


def read_option_env(words: Sequence[Word]) -> Iterator[Assignment]:
    """Yield what `kubectl run --env=A=1`, `apptainer exec --env A=1` and `mpirun -x A=1` set."""
    option = next((_ENV_OPTIONS[name] for word in words if (name := name_program(word.value)) in _ENV_OPTIONS), None)
    for at, word in enumerate(words if option else ()):
        found = None
        if word.value == option and at + 1 < len(words):
            found = read_assignment(words[at + 1], words[at + 1])
        elif word.value.startswith(f"{option}="):
            head = len(option or "") + 1
            found = read_assignment(Word(word.value[head:], word.start + head, word.end), word)
        if found and found.value is not None:
            yield found


def find_env_place(words: Sequence[Word], program: int | None) -> EnvPlace:
    """Return where a new variable goes: behind the present ones; behind a wrapper that would not hand it on.

    `program` is the index of SGLang's own program, None when it is unknown.
    """
    wrapper = words[:program]
    is_remote = any(name_program(word.value) in _REMOTE for word in wrapper)
    if program is None or not is_remote:
        place = read_prefix(words).place
        return EnvPlace("prefix", words[min(place, len(words) - 1)].start)
    late = find_late_env(wrapper)
    if late is None or name_program(wrapper[late].value) != "env":
        return EnvPlace("prefix", words[program].start, header="env ")
    return EnvPlace("prefix", words[late + read_prefix(words[late:]).place].start)

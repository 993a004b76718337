"""Read `docker run OPTIONS IMAGE ...` and its relatives (podman, nerdctl, compose run, exec)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from doctor.launch.model import Assignment, Word, read_assignment

_TOOLS = frozenset({"docker", "podman", "nerdctl"})
_VERBS = frozenset({"run", "exec"})
# Options without a value (docker CLI 27 and compose 2); every other one takes a value.
_SWITCHES = frozenset(
    {"--rm", "--detach", "--interactive", "--tty", "--init", "--privileged", "--read-only", "--publish-all"}
    | {"--no-healthcheck", "--oom-kill-disable", "--sig-proxy", "--quiet", "--disable-content-trust"}
    | {"--no-deps", "--service-ports", "--use-aliases", "--build", "--help"}
)
_LETTER_SWITCHES = "-ditPqT"


def find_image(words: Sequence[Word], start: int) -> int | None:
    """Return the index of the image (or container) among the words from `start` on, None without docker."""
    values = [word.value for word in words]
    tools = (at for at in range(start, len(values)) if values[at].rpartition("/")[2] in _TOOLS)
    tool = next(tools, None)
    if tool is None:
        return None
    # up to three words for `docker compose run` and `docker container exec`
    verbs = [at for at in range(tool + 1, min(tool + 4, len(values))) if values[at] in _VERBS]
    if not verbs:
        return None
    at = verbs[0] + 1
    while at < len(values) and values[at].startswith("-"):
        at += 1 if is_switch(values[at]) else 2
    return at if at < len(values) else None


def is_switch(option: str) -> bool:
    """Tell whether an option stands alone: it needs no value, or has it attached."""
    if option.startswith("--"):
        return "=" in option or option in _SWITCHES
    return not option.strip(_LETTER_SWITCHES) or len(option) > 2


def read_container_env(words: Sequence[Word]) -> Iterator[Assignment]:
    """Yield what `-e NAME=value`, `--env NAME`, `--env=NAME=value` and `-eNAME=value` set."""
    for at, word in enumerate(words):
        if word.value in {"-e", "--env"} and at + 1 < len(words):
            found = read_assignment(words[at + 1], Word("", word.start, words[at + 1].end))
        else:
            option = next((head for head in ("--env=", "-e") if word.value.startswith(head)), word.value)
            pair = word.value.removeprefix(option)
            found = read_assignment(Word(pair, word.start + len(option), word.end), word) if pair else None
        if found:
            yield found

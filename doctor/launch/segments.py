"""Split shell text into simple commands, and choose the one that launches SGLang."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from doctor.errors import DoctorError
from doctor.launch.entry import find_entry, find_other_program, has_entry, has_inner, name_program
from doctor.launch.model import Word
from doctor.launch.prefix import read_prefix
from doctor.launch.shell_text import Token, scan_tokens

# A key whose value is a command: systemd, supervisord, a Dockerfile.
_KEY = re.compile(r"(?:ExecStart|command)=[-+!@:]{0,3}|(?:CMD|ENTRYPOINT)$")
_PYTHON_CALL = re.compile(r"\b(?:Engine|ServerArgs|prepare_server_args)\(")
# What may stand in front of a simple command in a shell.
_KEYWORDS = frozenset({"do", "then", "else", "if", "while", "until", "{", "!"})
# Programs with long options that prepare a launch or look at it.
_HELPERS = frozenset(
    {"pip", "pip3", "apt", "apt-get", "git", "curl", "wget", "hf", "huggingface-cli"}
    | {"modelscope", "nvidia-smi", "ls", "ps", "cd", "cp", "mkdir", "rm", "sbatch", "scancel", "kill", "pkill"}
)
# The first word of an unknown program; code and data of other languages begin otherwise.
_PROGRAM = re.compile(r"[\w./~${}+:\\-]*[\w}]", re.ASCII)
Segment = tuple[Word, ...]


def split_segments(text: str) -> Iterator[Segment]:
    """Yield the words of each simple command; a line that begins with a flag continues the one before it."""
    words: list[Word] = []
    newline = skip = False
    for token in scan_tokens(text):
        ends = token.kind == "operator" and not is_redirection(token)
        if words and (ends or (newline and token.kind == "word" and not token.value.startswith("-"))):
            yield strip_key(words)
            words = []
        if token.kind == "word" and not skip:
            words.append(Word(token.value, token.start, token.end))
        newline = token.kind == "newline" or (newline and token.kind == "comment")
        skip = token.kind == "operator" and is_redirection(token) and not token.value[-1].isdigit()
    if words:
        yield strip_key(words)


def strip_key(words: Sequence[Word]) -> Segment:
    """Return the words without what a unit file, a Dockerfile or a sentence (`I ran: python ...`) has in front."""
    entry = find_entry(words)
    labels = [at for at, word in enumerate(words[: entry[0]]) if is_label(word.value)] if entry else []
    start = labels[-1] + 1 if labels else 0
    while start < len(words) - 1 and words[start].value in _KEYWORDS:
        start += 1
    first, *rest = words[start:]
    key = _KEY.match(first.value)
    if key is None or not (rest or first.value[key.end() :]):
        return (first, *rest)
    command = first._replace(value=first.value[key.end() :], start=first.start + key.end())
    return (command, *rest) if command.value else tuple(rest)


def is_label(value: str) -> bool:
    """Tell the last word of `I ran:` from a value that happens to end in a colon."""
    return value.endswith(":") and value[:-1].isalpha()


def no_command(text: str) -> DoctorError:
    """Build the error for text without a launch command."""
    call = _PYTHON_CALL.search(text)
    if call:
        return DoctorError(
            f"no launch command but a Python call: {call[0]}...)",
            hint="give its arguments as flags: tp_size=2 is --tp-size 2",
        )
    return DoctorError(
        "no SGLang launch command found",
        hint="give `sglang serve ...`, `python3 -m sglang.launch_server ...` or its flags alone",
    )


def is_redirection(token: Token) -> bool:
    """Tell redirections, which belong to their command, from operators that end it."""
    return "<" in token.value or ">" in token.value


def choose_segment(segments: Sequence[Segment], text: str) -> Segment:
    """Return the simple command that launches SGLang: by its entry point, else by its flags."""
    for is_wanted in (has_entry, has_inner, has_flags):
        for segment in segments:
            if is_wanted(segment):
                return segment
    raise no_command(text)


def refuse_other_program(segments: Sequence[Segment]) -> None:
    """Raise DoctorError when the text starts a router, a benchmark or another server, and no SGLang."""
    found = next(filter(None, map(find_other_program, segments)), "")
    if found and not any(has_entry(segment) or has_inner(segment) for segment in segments):
        raise DoctorError(
            f"{found} does not start an SGLang server", hint="give the command that does: `sglang serve ...`"
        )


def has_flags(words: Sequence[Word]) -> bool:
    """Tell whether a program has a long option, or a line begins with one."""
    if not any(word.value.startswith("--") and len(word.value) > 3 for word in words):
        return False
    prefix = read_prefix(words)
    first = words[min(prefix.length, len(words) - 1)].value
    is_program = _PROGRAM.fullmatch(first) is not None and name_program(first) not in _HELPERS
    return first.startswith("-") or is_program

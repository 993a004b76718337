"""Read a launch command written for a shell, with whatever stands in front of SGLang."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from doctor.errors import DoctorError
from doctor.launch.container import find_image, read_container_env
from doctor.launch.model import Assignment, Command, EnvPlace, Layout, Word, read_assignment
from doctor.launch.shell_text import Token, scan_tokens, scan_word

_PYTHON = re.compile(r"(?:\S*/)?(?:python[\d.]*|pypy3?)")
_SHELL = re.compile(r"(?:\S*/)?(?:ba|z|da|k)?sh")
Segment = tuple[Word, ...]


class Source(NamedTuple):
    """Shell text inside other text: where each of its characters comes from, and in which quotes it is."""

    text: str
    place: Callable[[int], int]
    quotes: tuple[str, ...]


class Parts(NamedTuple):
    """The words of the launching command, sorted by what they are, still in offsets of their own text."""

    env: tuple[Assignment, ...]
    wrapper: tuple[Word, ...]
    entry: tuple[Word, ...]
    arguments: tuple[Word, ...]
    unset: tuple[str, ...]
    needs_separator: bool
    program: int | None
    image: int | None


def read_shell(source: Source, outer: str) -> Command:
    """Parse shell text; `outer` is the whole text that `source.place` points into."""
    segments = list(split_segments(source.text))
    chosen = choose_segment(segments)
    inner = find_inner(chosen, source)
    if inner is not None:
        return add_outside(read_shell(inner, outer), segments, chosen, source)
    parts = sort_words(chosen)
    parts = parts._replace(env=tuple(exported(segments, source.text)) + parts.env)
    return build_command(parts, chosen, source, outer)


def split_segments(text: str) -> Iterator[Segment]:
    """Yield the words of each simple command; a line that begins with a flag continues the one before it."""
    words: list[Word] = []
    newline = skip = False
    for token in scan_tokens(text):
        ends = token.kind == "operator" and not is_redirection(token)
        if words and (ends or (newline and token.kind == "word" and not token.value.startswith("-"))):
            yield tuple(words)
            words = []
        if token.kind == "word" and not skip:
            words.append(Word(token.value, token.start, token.end))
        newline = token.kind == "newline" or (newline and token.kind == "comment")
        skip = token.kind == "operator" and is_redirection(token) and not token.value[-1].isdigit()
    if words:
        yield tuple(words)


def no_command() -> DoctorError:
    """Build the error for text without a launch command."""
    return DoctorError(
        "no SGLang launch command found",
        hint="give `sglang serve ...`, `python3 -m sglang.launch_server ...` or its flags alone",
    )


def is_redirection(token: Token) -> bool:
    """Tell redirections, which belong to their command, from operators that end it."""
    return "<" in token.value or ">" in token.value


def choose_segment(segments: Sequence[Segment]) -> Segment:
    """Return the simple command that launches SGLang: by its entry point, else by its flags."""
    for is_wanted in (has_entry, has_inner, has_flags):
        for segment in segments:
            if is_wanted(segment):
                return segment
    raise no_command()


def has_entry(words: Sequence[Word]) -> bool:
    """Tell whether the words name an entry point of SGLang."""
    return find_entry(words) is not None


def has_inner(words: Sequence[Word]) -> bool:
    """Tell whether a shell is given a script that names SGLang."""
    at = find_script(words)
    return at is not None and ("sglang" in words[at].value or "--model" in words[at].value)


def has_flags(words: Sequence[Word]) -> bool:
    """Tell whether any word looks like a long option."""
    return any(word.value.startswith("--") and len(word.value) > 3 for word in words)


def find_entry(words: Sequence[Word]) -> tuple[int, int] | None:
    """Return where the entry point begins and ends among the words."""
    values = [word.value for word in words]
    for at, value in enumerate(values):
        follower = values[at + 1] if at + 1 < len(values) else ""
        if value.rpartition("/")[2] == "sglang" and follower in {"serve", "launch_server"}:
            return at, at + 2
        if value == "-m" and re.match(r"(?:dynamo\.)?sglang(?:_router)?(?:\.|$)", follower):
            end = at + 3 if follower == "sglang" and values[at + 2 : at + 3] == ["serve"] else at + 2
            return find_interpreter(values, at), end
        if value.endswith(("launch_server.py", "sglang.launch_server")) and not value.startswith("-"):
            return find_interpreter(values, at), at + 1
    return None


def find_interpreter(values: Sequence[str], at: int) -> int:
    """Return the index of the Python that runs the module at `at`, with only options in between."""
    start = at
    while start > 0 and values[start - 1].startswith("-"):
        start -= 1
    return start - 1 if start > 0 and _PYTHON.fullmatch(values[start - 1]) else at


def find_script(words: Sequence[Word]) -> int | None:
    """Return the index of the script in `bash -c SCRIPT`."""
    for at in range(len(words) - 2):
        option = words[at + 1].value
        if _SHELL.fullmatch(words[at].value) and re.fullmatch(r"-[a-z]*c", option):
            return at + 2
    return None


def find_inner(words: Sequence[Word], source: Source) -> Source | None:
    """Return the script of `bash -c` as a source of its own when that is where SGLang is launched."""
    at = find_script(words)
    if at is None or has_entry(words):
        return None
    word = words[at]
    offsets = [offset for chunk in scan_word(source.text, word.start) for offset in chunk.offsets]
    offsets.append(word.end - 1 if source.text[word.end - 1] in "'\"" else word.end)
    quote = source.text[word.start] if source.text[word.start] in "'\"" else ""
    return Source(word.value, lambda at: source.place(offsets[at]), (*source.quotes, quote))


def add_outside(command: Command, segments: Sequence[Segment], chosen: Segment, source: Source) -> Command:
    """Put the words around `bash -c` in front of what was found inside its script."""
    script = find_script(chosen) or 0
    outside = sort_words(chosen[:script])
    env = [*exported(segments, source.text), *outside.env]
    moved = tuple(move_assignment(item, source) for item in env)
    wrapper = tuple(move_word(word, source.place) for word in outside.wrapper)
    layout = command.layout
    if outside.image is not None:
        layout = layout._replace(env=EnvPlace("docker", source.place(outside.image)))
    return command._replace(env=moved + command.env, wrapper=wrapper + command.wrapper, layout=layout)


def exported(segments: Sequence[Segment], text: str) -> Iterator[Assignment]:
    """Yield the variables of `export NAME=value` lines; removing one removes its line."""
    for segment in segments:
        first, *rest = segment
        if first.value != "export" or not rest:
            continue
        for word in rest:
            assignment = read_assignment(word, word)
            if assignment and len(rest) == 1:
                newline = text[word.end : word.end + 1] == "\n"
                assignment = assignment._replace(start=first.start, end=word.end + newline)
            if assignment:
                yield assignment


def sort_words(words: tuple[Word, ...]) -> Parts:
    """Sort the words of the launching command into environment, wrapper, entry point and arguments."""
    env, start, unset = read_prefix(words)
    wrapper_start, image = start, find_image(words, start)
    if image is not None:
        inner_env, after, inner_unset = read_prefix(words[image + 1 :])
        env += (*read_container_env(words[start:image]), *inner_env)
        unset, start = unset + inner_unset, image + 1 + after
    parts = Parts(env, (), (), (), unset, needs_separator=False, program=None, image=None)
    parts = parts._replace(image=None if image is None else words[image].start)
    entry = find_entry(words)
    if entry is None:
        return read_unknown(words, wrapper_start, start, parts)
    late_env, late_unset = read_late_prefix(words[start : entry[0]])
    return parts._replace(
        env=env + late_env,
        wrapper=words[wrapper_start : entry[0]],
        entry=words[slice(*entry)],
        arguments=words[entry[1] :],
        unset=unset + late_unset,
        program=words[entry[0]].start,
    )


def read_prefix(words: Sequence[Word]) -> tuple[tuple[Assignment, ...], int, tuple[str, ...]]:
    """Read leading `A=1 sudo -E env -u B C=2`: assignments, how many words they are, and the names unset."""
    env: list[Assignment] = []
    unset: list[str] = []
    at, program = 0, ""
    while at < len(words):
        assignment = read_assignment(words[at], words[at])
        if assignment:
            env.append(assignment)
        elif words[at].value.rpartition("/")[2] in {"env", "sudo", "exec"}:
            program = words[at].value.rpartition("/")[2]
        elif program == "env" and words[at].value in {"-u", "--unset"} and at + 1 < len(words):
            at += 1
            unset.append(words[at].value)
        elif not (program and words[at].value.startswith("-")):
            break
        at += 1
    return tuple(env), at, tuple(unset)


def read_late_prefix(words: Sequence[Word]) -> tuple[tuple[Assignment, ...], tuple[str, ...]]:
    """Read what an `env` behind other wrappers (`srun ... env A=1 python`) sets and unsets."""
    for at, word in enumerate(words):
        if word.value.rpartition("/")[2] in {"env", "sudo"}:
            env, _, unset = read_prefix(words[at:])
            return env, unset
    return (), ()


def read_unknown(words: tuple[Word, ...], wrapper_start: int, start: int, parts: Parts) -> Parts:
    """Sort the words of a command without a known entry point: flags alone, or an unknown wrapper."""
    if start >= len(words):
        raise no_command()
    if words[start].value.startswith("-"):
        return parts._replace(wrapper=words[wrapper_start:start], arguments=words[start:])
    parts = parts._replace(program=words[start].start)
    separator = next((at for at in range(start, len(words)) if words[at].value == "--"), None)
    if separator is None:
        return parts._replace(wrapper=words[wrapper_start:], needs_separator=True)
    return parts._replace(wrapper=words[wrapper_start : separator + 1], arguments=words[separator + 1 :])


def build_command(parts: Parts, words: tuple[Word, ...], source: Source, outer: str) -> Command:
    """Translate the parts into places of the outer text and work out where new pieces go."""
    place = source.place
    env_at = find_env_place(words) if parts.image is None else parts.image
    layout = Layout(
        style="shell",
        quotes=source.quotes,
        env=EnvPlace("prefix" if parts.image is None else "docker", place(env_at)),
        wrap_at=None if parts.program is None else place(parts.program),
        flags_at=place(words[-1].end),
        needs_separator=parts.needs_separator,
        unset=parts.unset,
    )
    return Command(
        text=outer,
        env=tuple(move_assignment(item, source) for item in parts.env),
        wrapper=tuple(move_word(word, place) for word in parts.wrapper),
        entry=tuple(move_word(word, place) for word in parts.entry),
        arguments=tuple(move_word(word, place) for word in parts.arguments),
        layout=layout,
        notes=(),
    )


def find_env_place(words: Sequence[Word]) -> int:
    """Return where a new `NAME=value` goes: behind the present ones, and behind sudo, which would drop it."""
    _, at, _ = read_prefix(words)
    return words[min(at, len(words) - 1)].start


def move_word(word: Word, place: Callable[[int], int]) -> Word:
    """Return the word with its place in the outer text."""
    return Word(word.value, place(word.start), place(word.end))


def move_assignment(item: Assignment, source: Source) -> Assignment:
    """Return the assignment with its places in the outer text."""
    place = source.place
    return item._replace(
        start=place(item.start),
        end=place(item.end),
        value_start=place(item.value_start),
        value_end=place(item.value_end),
        quotes=source.quotes,
    )

"""Read a launch command written for a shell, with whatever stands in front of SGLang."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from doctor.launch.container import find_image, read_container_env
from doctor.launch.entry import find_entry, find_joining, find_script, has_entry
from doctor.launch.model import Assignment, Command, EnvPlace, Layout, Word, read_assignment
from doctor.launch.prefix import find_env_place, read_late_prefix, read_option_env, read_prefix
from doctor.launch.segments import Segment, choose_segment, no_command, refuse_other_program, split_segments
from doctor.launch.shell_text import Chunk, scan_word, unquote

# What stands in front of the quotes of a script: `--wrap="..."`, `CMD='...'`, Python's `f"..."`.
_SCRIPT_HEAD = re.compile(r"[-\w.]*=(?=[\"'])|[rRfFbBuU]{1,2}(?=[\"'])", re.ASCII)
# No shell reads these values, so that `A=1 program` would not start.
UNIT_COMMANDS = ("ExecStart=", "command=")
UNIT_KEY = "Environment="


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
    place: EnvPlace


def read_shell(source: Source, outer: str) -> Command:
    """Parse shell text; `outer` is the whole text that `source.place` points into."""
    segments = list(split_segments(source.text))
    refuse_other_program(segments)
    chosen = choose_segment(segments, source.text)
    inner = find_inner(chosen, source)
    if inner is not None:
        return add_outside(read_shell(inner, outer), segments, chosen, source)
    chosen = respell(chosen)
    parts = sort_words(chosen)
    parts = parts._replace(env=tuple(exported(segments, source.text)) + parts.env)
    if parts.place.at == chosen[0].start and source.text[: parts.place.at].endswith(UNIT_COMMANDS):
        parts = parts._replace(place=parts.place._replace(header="/usr/bin/env "))
    command = build_command(parts, chosen, source, outer)
    number = sum(map(has_entry, segments))
    return command._replace(notes=(f"only the first of {number} launch commands is read",)) if number > 1 else command


def respell(words: Segment) -> Segment:
    """Return the words with their values as the second shell of `ssh HOST WORD...` hands them on."""
    at = find_joining(words)
    return (
        words
        if at is None
        else words[: at + 1] + tuple(word._replace(value=unquote(word.value)) for word in words[at + 1 :])
    )


def find_inner(words: Sequence[Word], source: Source) -> Source | None:
    """Return the script of `bash -c`, or another quoted launch, as a source of its own when SGLang is in it."""
    at = find_script(words)
    if at is None or has_entry(words):
        return None
    word = words[at]
    head = _SCRIPT_HEAD.match(source.text, word.start)
    skipped = head.end() - word.start if head else 0
    opening = source.text[word.start + skipped : word.start + skipped + 1]
    opening = opening if opening in {"'", '"'} else ""
    # what follows the last quote (`"..."}` in JSON) is not part of the script
    last = source.text.rfind(opening, word.start, word.end) if opening else word.end
    chunks = [chunk for chunk in scan_word(source.text, word.start) if chunk.value and chunk.offsets.start < last]
    offsets = [offset for chunk in chunks for offset in chunk.offsets]
    script = word.value[skipped : len(offsets)]
    offsets.append(find_text_end(source.text, chunks[-1]))
    return Source(script, lambda at: source.place(offsets[at + skipped]), (*source.quotes, opening))


def find_text_end(text: str, last: Chunk) -> int:
    """Return where the last characters of a word end, in front of the quote that closes them."""
    is_single = text[last.offsets.start - 1 : last.offsets.start] == "'" == text[last.end - 1]
    return last.offsets.stop if is_single else last.end


def add_outside(command: Command, segments: Sequence[Segment], chosen: Segment, source: Source) -> Command:
    """Put the words around a script in front of what was found inside it."""
    outside = chosen[: find_script(chosen) or 0]
    prefix = read_prefix(outside)
    image = find_image(outside, prefix.length)
    env = [*exported(segments, source.text), *prefix.env]
    env += read_container_env(outside[prefix.length : image]) if image is not None else read_option_env(outside)
    moved = tuple(move_assignment(item, source) for item in env)
    wrapper = tuple(move_word(word, source.place) for word in outside[prefix.length :])
    layout = command.layout
    if image is not None:
        layout = layout._replace(env=EnvPlace("docker", source.place(outside[image].start), quotes=source.quotes))
    return command._replace(env=moved + command.env, wrapper=wrapper + command.wrapper, layout=layout)


def exported(segments: Sequence[Segment], text: str) -> Iterator[Assignment]:
    """Yield the variables of `export NAME=value` lines; removing one removes its line."""
    for segment in segments:
        first, *rest = segment
        if first.value.startswith(UNIT_KEY):
            start = first.start + len(UNIT_KEY)
            rest = [Word(first.value[len(UNIT_KEY) :], start, first.end), *rest]
        elif first.value not in {"export", "declare", "typeset"} or not rest:
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
    prefix = read_prefix(words)
    env, start, unset = prefix.env, prefix.length, prefix.unset
    wrapper_start, image = start, find_image(words, start)
    if image is not None:
        inner = read_prefix(words[image + 1 :])
        env += (*read_container_env(words[start:image]), *inner.env)
        unset, start = unset + inner.unset, image + 1 + inner.length
    entry = find_entry(words)
    place = find_env_place(words, entry[0] if entry else None)
    place = place if image is None else EnvPlace("docker", words[image].start)
    parts = Parts(env, (), (), (), unset, needs_separator=False, program=None, place=place)
    if entry is None:
        return read_unknown(words, wrapper_start, start, parts)
    late = read_late_prefix(words[start : entry[0]])
    options = () if image is not None else tuple(read_option_env(words[start : entry[0]]))
    return parts._replace(
        env=env + options + late.env,
        wrapper=words[wrapper_start : entry[0]],
        entry=words[slice(*entry)],
        arguments=words[entry[1] :],
        unset=unset + late.unset,
        program=words[entry[0]].start,
    )


def read_unknown(words: tuple[Word, ...], wrapper_start: int, start: int, parts: Parts) -> Parts:
    """Sort the words of a command without a known entry point: flags alone, or an unknown wrapper."""
    if start >= len(words):
        raise no_command("")
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
    joining = find_joining(words)
    joined_at = words[-1].end if joining is None else words[joining].end
    inner = source if joining is None else source._replace(quotes=(*source.quotes, "ssh"))
    quotes = inner.quotes if parts.place.at > joined_at else source.quotes
    layout = Layout(
        style="shell",
        quotes=inner.quotes,
        env=parts.place._replace(at=place(parts.place.at), quotes=quotes),
        wrap_at=None if parts.program is None else place(parts.program),
        flags_at=place(words[-1].end),
        needs_separator=parts.needs_separator,
        unset=parts.unset,
    )
    return Command(
        text=outer,
        env=tuple(move_assignment(item, inner if item.start > joined_at else source) for item in parts.env),
        wrapper=tuple(move_word(word, place) for word in parts.wrapper),
        entry=tuple(move_word(word, place) for word in parts.entry),
        arguments=tuple(move_word(word, place) for word in parts.arguments),
        layout=layout,
        notes=(),
    )


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

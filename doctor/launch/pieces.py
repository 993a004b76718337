"""Cut pieces out of the text of a command, and write new ones the way their neighbours are written."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from doctor.launch.model import Command, Layout
from doctor.launch.quoting import nest, quote_shell, quote_yaml


class Splice(NamedTuple):
    """`text[start:end]` becomes `new`."""

    start: int
    end: int
    new: str


def apply_splices(text: str, splices: Iterable[Splice]) -> str:
    """Apply splices that do not overlap; insertions at one place come out in the order given."""
    pieces, at = [], 0
    for splice in sorted(splices, key=lambda item: (item.start, item.end)):
        pieces += [text[at : max(at, splice.start)], splice.new]
        at = max(at, splice.end)
    return "".join(pieces) + text[at:]


def write_words(command: Command, words: Sequence[str], like: str = "") -> str:
    """Write words in the style of the command, quoted as `like` where that is possible."""
    layout = command.layout
    if layout.style == "shell":
        return nest(" ".join(quote_shell(word, like) for word in words), layout.quotes)
    like = like or neighbour_quotes(command)
    return list_joint(layout).join(quote_yaml(word, like) for word in words)


def list_joint(layout: Layout) -> str:
    """Return what stands between two items of a YAML list."""
    return ", " if layout.style == "flow" else f"\n{layout.indent}- "


def neighbour_quotes(command: Command) -> str:
    """Return the source of a word of a YAML list, the last quoted one if any, whose quotes new ones take over."""
    words = (*command.wrapper, *command.entry, *command.arguments)
    sources = [command.text[word.start : word.end] for word in words]
    quoted = [source for source in sources if source[:1] in {"'", '"'}] if command.layout.style == "flow" else []
    return next(reversed(quoted or sources), "")


def gap_before(command: Command, at: int) -> str:
    """Return the source between a word and the one before it: blanks, continuations, a comma, a list dash."""
    text = command.text
    if command.layout.style == "list":
        return text[max(0, text.rfind("\n", 0, at)) : at]
    blanks = " \t\r\n\\" if command.layout.style == "shell" else " \t\r\n,"
    start = at
    while start > 0 and (text[start - 1] in blanks or is_continuation(text, start - 1)):
        start -= 1
    gap = text[start:at]
    return gap if "\n" in gap else gap.lstrip("\\")


def is_continuation(text: str, at: int) -> bool:
    """Tell whether a line goes on behind PowerShell's backquote or cmd's caret."""
    return text[at] in "`^" and text.startswith(("\n", "\r\n"), at + 1)


def remove_piece(command: Command, start: int, end: int) -> Splice:
    """Return the splice that takes out words and the gap in front of them; behind them when they are first."""
    gap = gap_before(command, start)
    if command.layout.style == "list":
        line_end = command.text.find("\n", end)
        is_comment = command.text[end:line_end].lstrip().startswith("#")
        return Splice(start - len(gap), line_end if is_comment else end, "")
    if gap and start > len(gap):
        return Splice(start - len(gap), end, "")
    rest = command.text[end:]
    return Splice(start, end + len(rest) - len(rest.lstrip(" \t\r\n,\\")), "")

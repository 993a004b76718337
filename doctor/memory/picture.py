"""The plan as text: bars, tables, the verdict and what would make it fit; ASCII only."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from doctor.memory.plan import Plan
from doctor.memory.shapes import Change, Edit, Row
from doctor.memory.units import ceil_divide, format_count, format_size

NARROWEST, WIDEST = 40, 160
NAME_COLUMN = 22
SIZE_COLUMN = 10
DERIVED = "rotary tables and rearranged copies"

LETTERS = {
    "other processes": "O",
    "CUDA and NCCL": "C",
    "weights": "W",
    "KV cache": "K",
    "request states": "S",
    "tables": "T",
    "CUDA graphs": "G",
    "activations": "A",
    "offloaded layers at work": "L",
    "processes": "P",
    "pinned offload": "O",
    "HiCache": "H",
    "loader": "R",
    "page cache": "c",
    "free": ".",
}


def render_plan(plan: Plan, width: int) -> str:
    """Return the plan as lines of at most `width` ASCII characters (40 to 160), ending in a newline."""
    columns = max(NARROWEST, min(WIDEST, width))
    lines = [line for part in PARTS for line in part(plan, columns)]
    return "\n".join(clean(line, columns) for line in lines) + "\n"


def clean(text: str, width: int) -> str:
    """Return the text with everything that is not printable ASCII replaced, cut to `width`.

    Names come from the model's files; they must not reach a terminal as control characters.
    """
    plain = "".join(char if " " <= char <= "~" else "?" for char in text.rstrip())
    return plain if len(plain) <= width else plain[: width - 3] + "..."


def wrap(text: str, width: int, indent: str) -> list[str]:
    """Return the text broken into lines, all but the first indented two columns further."""
    from textwrap import wrap as break_lines

    return break_lines(text, width, initial_indent=indent, subsequent_indent=indent + "  ") or [indent]


def render_heading(plan: Plan, width: int) -> Iterator[str]:
    """Yield the verdict and its reasons."""
    gpu = f"{plan.gpus_needed} x {plan.gpu}" if plan.gpu else f"{plan.gpus_needed} GPU(s) of unknown size"
    yield from wrap(f"{plan.model} on {gpu}, sglang {plan.version}", width, "")
    yield f"Verdict: {plan.verdict.upper()}" + (f" (a guess: {plan.guess} is unknown here)" if plan.guess else "")
    for reason in plan.reasons:
        yield from wrap(f"- {reason}", width, "  ")


def render_gpu(plan: Plan, width: int) -> Iterator[str]:
    """Yield the GPU's bar and table."""
    if not plan.gpu_total:
        yield from render_weights(plan, width)
        return
    yield ""
    support = f" ({plan.gpu_support})" if plan.gpu_support else ""
    yield from wrap(f"Each GPU: {format_size(plan.gpu_total)}{support}", width, "")
    yield from render_table(plan.gpu_rows, plan.gpu_total, width)
    yield from render_weights(plan, width)


def render_weights(plan: Plan, width: int) -> Iterator[str]:
    """Yield the weights by part and, when the files were read, by dtype."""
    named = ((DERIVED if row.name == "buffer" else row.name, row.size) for row in plan.weights)
    parts = ", ".join(f"{name} {format_size(size)}" for name, size in named)
    yield from wrap(f"Weights of one rank: {parts}", width, "")
    if plan.stored:
        stored = ", ".join(f"{row.name} {format_size(row.size)}" for row in plan.stored[:6])
        yield from wrap(f"In the files: {stored}", width, "")


def render_host(plan: Plan, width: int) -> Iterator[str]:
    """Yield the host's bar and table."""
    yield ""
    limit = "unknown size" if plan.host_limit is None else format_size(plan.host_limit)
    yield f"Host: {limit}, peak {format_size(plan.host_peak)}"
    firm = tuple(row for row in plan.host_rows if row.name != "page cache")
    cache = tuple(row for row in plan.host_rows if row.name == "page cache" and row.size)
    total = plan.host_limit or plan.host_peak
    free = Row("free", total - plan.host_peak, "")
    yield from render_table((*firm, free), total, width)
    for row in cache:
        yield from wrap(f"and {format_size(row.size)} of page cache: {row.source}", width, "  ")


def render_table(rows: Sequence[Row], total: int, width: int) -> Iterator[str]:
    """Yield a bar over `total` bytes and a line for each row."""
    yield draw_bar(rows, total, width)
    for row in rows:
        name = f"{LETTERS.get(row.name, '#')} {row.name}" if row.size >= 0 else "! missing"
        share = f"{100 * abs(row.size) / total:6.1f} %" if total > 0 else ""
        yield f"  {name:<{NAME_COLUMN + 4}}{format_size(abs(row.size)):>{SIZE_COLUMN}} {share}  {row.source}"


def draw_bar(rows: Sequence[Row], total: int, width: int) -> str:
    """Return a bar of one letter per row; what exceeds `total` stands behind a "|"."""
    cells = width - 2
    sizes = [max(0, row.size) for row in rows]
    whole = max(sum(sizes), 1)
    counts = divide_cells(sizes, cells)
    bar = "".join(LETTERS.get(row.name, "#") * count for row, count in zip(rows, counts, strict=True))
    if whole > total > 0 and any(row.size < 0 for row in rows):
        at = max(1, min(cells - 1, cells * total // whole))
        bar = bar[:at] + "|" + bar[at + 1 :]
    return f"[{bar}]"


def divide_cells(sizes: Sequence[int], cells: int) -> list[int]:
    """Return how many of `cells` each size gets: in proportion, at least one unless it is zero.

    The largest gives up what the rounding of the others costs, so the counts add up to `cells`.
    """
    whole = sum(sizes)
    if whole <= 0:
        return [0] * len(sizes)
    counts = [max(1, cells * size // whole) if size else 0 for size in sizes]
    largest = max(range(len(sizes)), key=lambda at: sizes[at])
    counts[largest] = max(0, counts[largest] + cells - sum(counts))
    return counts


def render_settings(plan: Plan, width: int) -> Iterator[str]:
    """Yield SGLang's own choices and the range in which the fraction works."""
    low, high = plan.window
    origin = "given" if plan.fraction_given else "SGLang's own choice"
    works = f"{low:.3f} to {high:.3f} work" if low <= high else "no value works"
    yield ""
    if plan.gpu:
        yield from wrap(f"--mem-fraction-static {plan.fraction:.3f} ({origin}); {works}", width, "")
    yield from wrap(f"chunked prefill {plan.chunk} tokens; graphs: {describe_graphs(plan)}", width, "")


def describe_graphs(plan: Plan) -> str:
    """Return how many graphs are captured, and up to which size."""
    kinds = (("decode", plan.decode_sizes, "requests"), ("prefill", plan.prefill_sizes, "tokens"))
    texts = [f"{len(s)} {name} (to {max(s)} {unit})" for name, s, unit in kinds if s]
    return ", ".join(texts) or "none"


def render_capacity(plan: Plan, width: int) -> Iterator[str]:
    """Yield tokens, bytes per token and how many requests of which length fit."""
    yield from wrap(f"KV cache: {format_size(plan.bytes_per_token)} per token and rank", width, "")
    if not plan.gpu:
        return
    windowed = f" ({format_count(plan.window_tokens)} in sliding-window layers)" if plan.window_tokens else ""
    yield from wrap(
        f"{format_count(plan.tokens)} tokens{windowed}, at most {plan.requests} running requests", width, "  "
    )
    for length, count in plan.capacity:
        full = " (full context)" if length == plan.context else ""
        yield f"  {format_count(length):>6} tokens each: {count} at once{full}"


def render_changes(plan: Plan, width: int) -> Iterator[str]:
    """Yield the changes that make the launch fit."""
    if plan.verdict in {"fits", "unknown"}:
        return
    yield ""
    if not plan.changes:
        yield from wrap(f"No single change of the launch makes it fit{count_filled(plan)}.", width, "")
        return
    fits = plan.changes[0].verdict == "fits"
    yield "Any one of these makes it fit:" if fits else "Nothing makes it fit; closest, with little room left:"
    for number, change in enumerate(plan.changes, 1):
        yield from render_change(number, change, width)


def count_filled(plan: Plan) -> str:
    """Return how many such GPUs the weights alone fill, when that is more than the launch uses; else ""."""
    weights = sum(row.size for row in plan.weights) * plan.gpus_needed
    filled = ceil_divide(weights, plan.gpu_total) if plan.gpu_total else 0
    return f": the weights alone fill {filled} x {plan.gpu}" if filled > plan.gpus_needed else ""


def render_change(number: int, change: Change, width: int) -> Iterator[str]:
    """Yield one change with its flags and its cost."""
    yield from wrap(f"{number}. {change.title}", width, "  ")
    flags = " ".join(describe_edit(edit) for edit in change.edits)
    if flags:
        yield from wrap(flags, width, "     ")
    yield from wrap(change.why, width, "     ")


def describe_edit(edit: Edit) -> str:
    """Return an edit as the flag to type, or to remove."""
    return f"(without {edit.flag})" if edit.value is None else f"{edit.flag} {edit.value}".rstrip()


def render_notes(plan: Plan, width: int) -> Iterator[str]:
    """Yield the notes."""
    if plan.notes:
        yield ""
        yield "Notes:"
    for note in plan.notes:
        yield from wrap(f"- {note}", width, "  ")


PARTS = (
    render_heading,
    render_gpu,
    render_host,
    render_settings,
    render_capacity,
    render_changes,
    render_notes,
)

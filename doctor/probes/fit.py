"""Will the model fit: the memory plan of this launch on this machine."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from doctor.launch.edits import Edit
from doctor.memory.plan import Plan, plan_model
from doctor.memory.shapes import Change
from doctor.memory.units import format_count, format_size
from doctor.probes.base.context import Context
from doctor.probes.base.devices import describe_host
from doctor.probes.base.result import Result, make_error, make_ok, make_unknown, make_void, make_warning

NAME = "fit"
GROUP = "launch"
SUMMARY = "the model fits"
NEEDS = ("gpus", "paths", "python")
INSIDE = True

# A flag that ends the server by itself, as the plan says it.
_CRASH = re.compile(r"(--[a-z][a-z0-9-]{1,60}) crashes")
# Said by probes of their own: visible-devices, shared-memory, allocator.
_ELSEWHERE = ("GPUs are needed", " /dev/shm", "pinned_max")


def probe(context: Context) -> Iterator[Result]:
    """Plan the launch with what is free now."""
    launch = context.launch
    if launch is None or context.model is None:
        yield make_void(NAME, "no launch of a model that is on this machine")
        return
    plan = plan_model(Path(context.model), launch.arguments, describe_host(context), launch.table.version)
    reasons = [reason for reason in plan.reasons if not any(words in reason for words in _ELSEWHERE)]
    yield from describe(plan, reasons, uses_gpu=context.uses_gpu)
    yield from (Result(NAME, "problem", note, "info") for note in plan.notes if "wins over" in note)


def describe(plan: Plan, reasons: list[str], *, uses_gpu: bool) -> Iterator[Result]:
    """Yield the plan's reasons; the nearest changes belong to the first that is about memory."""
    evidence = tuple(f"{row.name}: {format_size(row.size)}" for row in plan.gpu_rows[:6])
    severe = make_error if plan.verdict == "does not fit" else make_warning
    fixes, edits = list_changes(plan)
    for reason in reasons:
        flag = _CRASH.match(reason)
        if flag:
            yield severe(NAME, reason, (), (f"drop {flag[1]}",), (Edit("flag", flag[1], None, None),))
        else:
            yield severe(NAME, reason, evidence, fixes, edits)
            fixes, edits = (), ()
    if not reasons and plan.verdict == "unknown" and uses_gpu:
        yield make_unknown(
            NAME, SUMMARY, "no GPU is visible here; doctor plan MODEL --gpu NAME answers for another machine"
        )
    elif not reasons:
        tokens = format_count(plan.tokens)
        summary = f"fits: about {tokens} tokens of KV cache, mem_fraction_static {plan.fraction:.3f}"
        yield make_ok(NAME, summary, *evidence)


def list_changes(plan: Plan) -> tuple[tuple[str, ...], tuple[Edit, ...]]:
    """Return up to three changes in words, and the edits of the nearest."""
    changes = [change for change in plan.changes if change.edits][:3]
    fixes = tuple(f"{write_flags(change)}   # {change.title}" for change in changes)
    return fixes, tuple(Edit("flag", edit.flag, None, edit.value) for edit in changes[0].edits) if changes else ()


def write_flags(change: Change) -> str:
    """Write the flags of a change as they would be typed."""
    flags = (f"{edit.flag} {edit.value}" if edit.value is not None else f"drop {edit.flag}" for edit in change.edits)
    return " ".join(flag.strip() for flag in flags)

"""What to change in a launch that the host's memory did not carry, in numbers of this machine."""

from __future__ import annotations

from collections.abc import Iterator

from doctor.diagnosis.model import Fix
from doctor.launch.edits import Edit
from doctor.memory.units import GIB
from doctor.redact import clean
from doctor.watch.forecast import Forecast
from doctor.watch.launch import Launch, mend

PINNED_SHARE = 1.34
"""Host memory for each byte of --cpu-offload-gb: 10 GB took 13.4 (0.5.15.post1, H200; pinned blocks are rounded up)."""


def suggest_fixes(launch: Launch, available: int, forecast: Forecast | None, version: str | None) -> tuple[Fix, ...]:
    """Give the fixes with a corrected command; `available` bytes could be used beyond the reserve as loading began."""
    found = [*_lower_offload(launch, available), *_offload_fewer(launch, forecast)]
    fixes = [_make_fix(launch, edit, why, version) for edit, why in found]
    return tuple(fix for fix in fixes if fix)


def _lower_offload(launch: Launch, available: int) -> Iterator[tuple[Edit, str]]:
    asked, ranks = launch.arguments.get("cpu_offload_gb"), launch.arguments.get("tp_size", 1)
    if isinstance(asked, int) and isinstance(ranks, int) and asked > 0 < ranks:
        fits = int(available / PINNED_SHARE / ranks / GIB)
        if 0 < fits < asked:
            why = f"{available / GIB:.0f} GiB were available for {ranks} rank(s), and pinned blocks are rounded up"
            yield Edit("flag", "--cpu-offload-gb", str(asked), str(fits)), why


def _offload_fewer(launch: Launch, forecast: Forecast | None) -> Iterator[tuple[Edit, str]]:
    """Move fewer layers of each group; where only one is moved, make the groups larger."""
    group, moved = launch.arguments.get("offload_group_size"), launch.arguments.get("offload_num_in_group", 1)
    if forecast is None or not forecast.stops_at or not isinstance(group, int) or not isinstance(moved, int):
        return
    fits = moved * forecast.stops_at // forecast.total
    if 0 < fits < moved:
        yield Edit("flag", "--offload-num-in-group", str(moved), str(fits)), forecast.words
    elif moved == 1:
        larger = -(-group * forecast.total // forecast.stops_at)
        yield Edit("flag", "--offload-group-size", str(group), str(larger)), forecast.words


def _make_fix(launch: Launch, edit: Edit, why: str, version: str | None) -> Fix | None:
    better = mend(launch, [edit], version)
    if better is None:
        return None
    title = f"Offload less: {edit.name} {edit.after}"
    return Fix(title, "review", (edit,), clean(better.text), version, why, "the log goes on to `Load weight end`")

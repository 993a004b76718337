"""Whether the host will carry an offload, told from its first layers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from doctor.memory.units import GIB

LEAST_STEPS = 3
"""Layers needed for a forecast: the first one also pays for buffers."""


class Step(NamedTuple):
    """One offloaded layer: its number, and the bytes of host memory available after it."""

    layer: int
    available: int


class Forecast(NamedTuple):
    """`each` bytes of host memory a layer, `needed` for `total` layers, `available` before the first.

    `stops_at` counts the layers that fit; None when all do.
    """

    each: int
    total: int
    needed: int
    available: int
    stops_at: int | None

    @property
    def words(self) -> str:
        """One clause."""
        need = f"the offload needs {self.needed / GIB:.0f} GiB, {self.available / GIB:.0f} available"
        return need if self.stops_at is None else f"{need}: stops at layer {self.stops_at} of {self.total}"

    def tell_end(self, available: int, reserve: int, done: int) -> str:
        """Say that the next layers will not fit, "" while there is room; `done` layers are in place.

        A layer early: pinned memory is taken inside one call of the driver, which no signal interrupts, and the line
        about a layer is read when the next one is on its way.
        """
        if self.stops_at is None or available - 2 * self.each >= reserve:
            return ""
        return f"{available / GIB:.1f} GiB are left after layer {done} and a layer takes {self.each / GIB:.1f} GiB"


def count_layers(arguments: Mapping[str, Any], layers: int) -> int:
    """Count the layers of grouped offload: `i % group >= group - num` (utils/offloader.py, 0.5.2 to 0.5.23)."""
    group, moved = arguments.get("offload_group_size"), arguments.get("offload_num_in_group", 1)
    if not isinstance(group, int) or not isinstance(moved, int) or group <= 0:
        return 0
    return sum(1 for layer in range(layers) if layer % group >= group - moved)


def read_layer_count(model_path: object) -> int:
    """Read num_hidden_layers of a local model; 0 when it is not known."""
    import json
    import os

    try:
        with open(os.path.join(str(model_path), "config.json"), "rb") as stream:
            config = json.loads(stream.read(1 << 20))
        found = config.get("num_hidden_layers") or config.get("text_config", {}).get("num_hidden_layers")
    except (OSError, ValueError, AttributeError):
        return 0
    return found if isinstance(found, int) and 0 < found < 10_000 else 0


def predict(steps: Sequence[Step], total: int, reserve: int) -> Forecast | None:
    """Extrapolate what the layers took so far; None while too few are known."""
    if len(steps) < LEAST_STEPS or total < len(steps):
        return None
    taken = steps[0].available - steps[-1].available
    each = taken // (len(steps) - 1)
    if each <= 0:
        return None
    before = steps[0].available + each
    room = before - reserve
    fits = max(room // each, 0)
    return Forecast(each, total, each * total, before, int(fits) if fits < total else None)

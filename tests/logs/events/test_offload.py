import pytest

from doctor.logs.events import offload
from tests.helpers import FIXTURES
from tests.logs.events.helpers import parse

STEP = "[2026-08-01 06:43:41] [offloader] offload module_index=41 submodule=<class 'sglang.srt.layers.moe.fused_moe_triton.layer.FusedMoE'> params=['w13_weight', 'w2_weight'] memory_allocated=16811687424"


def test_step() -> None:
    (event,) = parse(offload, STEP)
    assert (event.layer, event.params, event.allocated) == (41, ("w13_weight", "w2_weight"), 16811687424)
    assert "FusedMoE" in event.submodule


def test_steps_of_a_paste_without_newlines_the_first_cut_at_its_front() -> None:
    events = parse(offload, (FIXTURES / "seed/offload_ram_exhausted.log").read_bytes())
    assert [event.layer for event in events] == [-1, 41, 42, 43]
    assert events[-1].allocated == 17422529536


def test_step_without_parameters() -> None:
    (event,) = parse(offload, STEP.replace("'w13_weight', 'w2_weight'", ""))
    assert event.params == ()


@pytest.mark.parametrize(
    "line",
    [
        "[offloader] offload module_index=x",
        "torch memory_allocated=5",
        "[offloader] group done",
        STEP.replace("16811687424", ""),
        STEP.replace("16811687424", "9" * 6000),
        STEP.replace("41", "4" * 6000),
    ],
)
def test_offload_near_miss(line: str) -> None:
    assert parse(offload, line) == []

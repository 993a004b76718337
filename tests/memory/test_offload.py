import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from doctor.memory import offload as off
from doctor.memory.config import read_json
from doctor.memory.units import GIB, MIB
from doctor.memory.weights import get_whole_stage, list_params, sum_parts

from .helpers import FIXTURES, build
from .published import V3


def move(name, version="0.5.15.post1", **arguments):
    from doctor.memory.versions import parse_version

    model = build(read_json(FIXTURES / name / "config.json"), version, **arguments)
    return off.plan_offload(model, get_whole_stage(model), arguments, parse_version(version))


@pytest.mark.parametrize(
    ("size", "pinned"),
    [(768 * MIB, GIB), (384 * MIB, 512 * MIB), (704 * MIB, GIB), (352 * MIB, 512 * MIB), (GIB, GIB), (0, 0), (1, 1)],
)
def test_round_pinned_is_the_next_power_of_two(size, pinned):
    assert off.round_pinned(size) == pinned


def test_round_pinned_above_the_threshold_is_exact():
    assert off.round_pinned(704 * MIB, 16 * MIB) == 704 * MIB
    assert off.round_pinned(12 * MIB, 16 * MIB) == 16 * MIB


@settings(deadline=None)
@given(st.integers(0, 1 << 45), st.integers(0, 1 << 45))
def test_round_pinned_never_shrinks_and_less_than_doubles(size, threshold):
    for pinned in (off.round_pinned(size), off.round_pinned(size, threshold)):
        assert size <= pinned <= max(2 * size, size + off.PAGE)


def test_cpu_offload_gb_moves_first_layers_until_the_budget_overshoots():
    """Recording offload_gb: 8.55 GB stay on the GPU of 18.6, 13.4 GB are pinned for 10 GB asked."""
    found = move("moe16", cpu_offload_gb=10)
    assert found.moved >= 10 * GIB
    assert found.moved - 10 * GIB < 768 * MIB
    assert found.pinned / GIB == pytest.approx(13.4, rel=0.01)


def test_cpu_offload_gb_of_more_than_the_model_moves_every_layer():
    found = move("moe16", cpu_offload_gb=500)
    assert found.moved == pytest.approx(16 * 1188.5 * MIB, rel=0.001)


def test_cpu_offload_gb_leaves_kv_b_proj_since_0_5_21():
    moved = [move("ds12", version, cpu_offload_gb=500).moved for version in ("0.5.19", "0.5.21")]
    assert moved[0] - moved[1] == 12 * 512 * 16 * 256 * 2


def test_offload_group_takes_expert_tensors_only():
    """Recording offload_deepseek_slow: 11 layers of 704 + 352 MiB took 11 x 1.5 GiB."""
    found = move("ds12", offload_group_size=1, offload_num_in_group=1)
    assert found.moved == 11 * 1056 * MIB
    assert found.pinned == 11 * 1536 * MIB
    assert (found.kept, found.total) == (0, 11)


def test_offload_group_keeps_what_the_recorded_log_says_resident():
    """memory_allocated of the log: 209 082 880 after layer 0, then 62.4 MB a layer, experts excluded."""
    arguments = {"offload_group_size": 1, "disable_shared_experts_fusion": True}
    model = build(read_json(FIXTURES / "ds12" / "config.json"), "0.5.15.post1", **arguments)
    loaded = [p for p in list_params(model, get_whole_stage(model)) if p.part not in {"head", "experts"}]
    # Copies of kv_b_proj are made after loading, so the log does not show them yet.
    resident = sum(p.size for p in loaded if p.name != "self_attn.w_kc_w_vc")
    in_flight = 1056 * MIB
    assert resident + in_flight == pytest.approx(2_004_870_656, rel=0.003)
    layer = sum(p.size for p in model.layers[5].params if p.part not in {"experts", "buffer"})
    assert layer == pytest.approx((1_942_471_168 - 1_567_549_952) / 6, rel=0.003)


def test_thread_of_48_layers_pins_81_gib_for_63():
    found = move("offload48", "0.5.18", offload_group_size=1, offload_num_in_group=1)
    assert found.moved / GIB == pytest.approx(63.3, abs=0.05)
    assert found.pinned / GIB == pytest.approx(81.0, abs=0.05)


def test_thread_group_of_twelve_keeps_four_of_48_and_moves_5_3_gib_less():
    everything = move("offload48", "0.5.18", offload_group_size=1, offload_num_in_group=1)
    most = move("offload48", "0.5.18", offload_group_size=12, offload_num_in_group=11)
    assert (most.kept, most.total) == (4, 48)
    assert (everything.moved - most.moved) / GIB == pytest.approx(5.3, abs=0.05)


def test_thread_with_exact_allocation_pins_what_it_moves():
    exact = {"PYTORCH_ALLOC_CONF": "pinned_max_round_threshold_mb:16,pinned_max_cached_size_mb:16"}
    found = move("offload48", "0.5.19", offload_group_size=1, **exact)
    assert found.pinned == found.moved


def test_exact_allocation_is_unknown_before_torch_2_13():
    assert off.read_threshold({"PYTORCH_ALLOC_CONF": "pinned_max_round_threshold_mb:16"}, (0, 5, 18)) is None


@pytest.mark.parametrize(
    "text", ["", "pinned_max_round_threshold_mb", "pinned_max_round_threshold_mb:x", "a:b,,:", "," * 5000]
)
def test_read_threshold_of_other_settings_is_none(text):
    assert off.read_threshold({"PYTORCH_ALLOC_CONF": text}, (0, 5, 23)) is None


def test_offload_group_of_meta_mode_pins_nothing():
    assert move("ds12", offload_group_size=1, offload_mode="meta").pinned == 0


def test_offload_group_in_flight_is_prefetch_plus_one_layers():
    assert move("ds12", offload_group_size=1, offload_prefetch_step=2).in_flight == 3 * 1056 * MIB


def test_cpu_offload_gb_wins_over_groups():
    assert move("ds12", cpu_offload_gb=1, offload_group_size=1).kind == "layers"
    assert off.find_offload_notes({"cpu_offload_gb": 1, "offload_group_size": 1})


def test_nothing_asked_moves_nothing():
    assert move("ds12") == off.NO_OFFLOAD
    assert move("ds12", offload_group_size=-1) == off.NO_OFFLOAD


@pytest.mark.parametrize("group", [0, -1, "4", None, True, 2.5])
def test_group_size_of_nonsense_is_not_asked_for(group):
    assert not off.asks_for_groups({"offload_group_size": group})


@pytest.mark.parametrize(("name", "conflicts"), [("moe16", 1), ("ds12", 0)])
def test_find_offload_conflicts_of_groups_outside_deepseek(name, conflicts):
    arguments = {"offload_group_size": 1}
    model = build(read_json(FIXTURES / name / "config.json"), **arguments)
    assert len(off.find_offload_conflicts(model, arguments, (0, 5, 23))) == conflicts


def test_find_offload_conflicts_of_an_allocator_setting_that_kills_old_torch():
    arguments = {"PYTORCH_ALLOC_CONF": "pinned_max_round_threshold_mb:16"}
    assert "segmentation fault" in off.find_offload_conflicts(build(V3), arguments, (0, 5, 15, 1))[0]
    assert off.find_offload_conflicts(build(V3), arguments, (0, 5, 19)) == []


def test_find_prefetch_conflict_of_more_steps_than_layers():
    arguments = {"offload_group_size": 12, "offload_num_in_group": 1, "offload_prefetch_step": 4}
    assert "IndexError" in off.find_prefetch_conflict(move("ds12", **arguments), arguments)[0]


@settings(deadline=None)
@given(st.integers(1, 60), st.integers(1, 60))
def test_groups_move_the_layers_the_rule_names(group, number):
    found = move("ds12", offload_group_size=group, offload_num_in_group=number)
    expected = [layer for layer in range(1, 12) if layer % group >= group - min(number, group)]
    assert found.total - found.kept == len(expected)


def test_sum_parts_of_the_thread_model_counts_scales_as_experts():
    model = build(read_json(FIXTURES / "offload48" / "config.json"))
    assert sum_parts(list_params(model, get_whole_stage(model)))["experts"] / GIB == pytest.approx(63.28, abs=0.01)

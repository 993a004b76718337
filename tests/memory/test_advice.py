import json

import pytest

from doctor.memory.advice import list_splits
from doctor.memory.gpus import describe_machine
from doctor.memory.picture import render_plan
from doctor.memory.plan import plan_model
from doctor.memory.units import GIB

from .helpers import FIXTURES, H200, plan_fixture
from .published import V3

SMALL = describe_machine("RTX 5090", 1, "96GiB")


def get_edits(plan):
    return [{edit.flag: edit.value for edit in change.edits} for change in plan.changes]


def apply(arguments, change):
    """Return the arguments after a change, numbers read as the command line would."""
    result = dict(arguments)
    for edit in change.edits:
        name = edit.flag.removeprefix("--").replace("-", "_")
        result.pop(name, None)
        if edit.value is not None:
            result[name] = (
                float(edit.value) if "." in edit.value else int(edit.value) if edit.value.isdecimal() else edit.value
            )
    return result


@pytest.mark.parametrize(
    ("model", "machine", "arguments"),
    [
        ("dense8b", H200, {"mem_fraction_static": 0.05}),
        ("dense8b", H200, {"mem_fraction_static": 0.999}),
        ("dense8b", H200, {"context_length": 2_000_000}),
        ("dense8b", describe_machine("RTX 4090", 1, "64GiB"), {"context_length": 131072}),
        ("dense90b", H200, {}),
        ("dense90b", H200._replace(gpus=4), {}),
        ("offload48", SMALL, {"context_length": 8192, "max_running_requests": 1}),
        ("moe16", H200, {"offload_group_size": 1}),
    ],
)
def test_every_change_offered_makes_the_launch_fit(model, machine, arguments):
    plan = plan_fixture(model, machine, "0.5.18", **arguments)
    assert plan.verdict != "fits"
    assert plan.changes
    for change in plan.changes:
        if change.verdict == "fits" and "checkpoint of this model" not in change.title:
            needed = plan_fixture(model, machine._replace(gpus=16), "0.5.18", **apply(arguments, change))
            assert needed.verdict == "fits", change


def test_a_launch_that_fits_gets_no_advice():
    assert plan_fixture("dense8b").changes == ()


def test_a_wrong_fraction_is_all_that_is_changed():
    plan = plan_fixture("dense8b", mem_fraction_static=0.05)
    assert get_edits(plan) == [{"--mem-fraction-static": None}]


def test_a_split_is_offered_that_fits_gpu_and_host():
    arguments = {"context_length": 8192, "max_running_requests": 1}
    plan = plan_fixture("offload48", SMALL, "0.5.18", **arguments)
    split = next(edits for edits in get_edits(plan) if "--offload-group-size" in edits)
    chosen = {
        "offload_group_size": int(split["--offload-group-size"]),
        "offload_num_in_group": int(split["--offload-num-in-group"]),
    }
    after = plan_fixture("offload48", SMALL, "0.5.18", **arguments, **chosen)
    assert after.verdict == "fits"
    assert after.host_peak < 96 * GIB


def test_a_split_that_the_host_cannot_pin_is_not_offered():
    machine = describe_machine("RTX 5090", 1, "40GiB")
    plan = plan_fixture("offload48", machine, "0.5.18", context_length=8192, max_running_requests=1)
    assert not any("--offload-group-size" in edits for edits in get_edits(plan))


def test_the_thread_s_machine_fits_with_fewer_layers_offloaded():
    """All 48 layers pin 81 GiB and exceed 80 GiB of memory; keeping some on the GPU fits both sides."""
    machine = describe_machine("RTX 5090", 1, "80GiB")
    arguments = {"offload_group_size": 1, "offload_num_in_group": 1, "context_length": 8192, "max_running_requests": 1}
    plan = plan_fixture("offload48", machine, "0.5.18", **arguments)
    assert "the host needs 84.6" in plan.reasons[0]
    assert any("--offload-group-size" in edits for edits in get_edits(plan))


def test_other_families_get_plain_offload():
    plan = plan_fixture("dense90b")
    assert any("--cpu-offload-gb" in edits for edits in get_edits(plan))
    assert not any("--offload-group-size" in edits for edits in get_edits(plan))


def test_gpus_of_this_machine_come_before_more_gpus():
    assert {"--tp-size": "2"} in get_edits(plan_fixture("dense90b", H200._replace(gpus=2)))


def test_a_machine_with_too_few_gpus_is_told_how_many():
    plan = plan_fixture("dense90b")
    change = next(change for change in plan.changes if change.edits and change.edits[0].flag == "--tp-size")
    assert "1 of the 2 H200" in change.why


def test_a_quantized_checkpoint_is_not_quantized_again():
    plan = plan_fixture("offload48", SMALL, "0.5.18")
    assert not any("--quantization" in edits for edits in get_edits(plan))


def test_a_4_bit_checkpoint_is_offered_when_fp8_is_not_enough():
    plan = plan_fixture("dense90b", H200._replace(gpu=describe_machine("L40S").gpu))
    assert [change.title for change in plan.changes if "4-bit" in change.title]


def test_a_launch_nothing_helps_gets_no_changes():
    machine = describe_machine("RTX 3060", 1, "8GiB")
    plan = plan_model(FIXTURES / "dense90b", {"tp_size": 16}, machine, "0.5.23")
    assert plan.verdict == "does not fit"
    assert plan.changes == ()


def test_list_splits_names_each_share_once_from_few_to_all():
    splits = list_splits()
    shares = [number / size for size, number in splits]
    assert shares == sorted(set(shares))
    assert (12, 11) in splits
    assert (2, 1) in splits
    assert (4, 2) not in splits
    assert splits[-1] == (1, 1)


def test_a_model_that_would_live_on_the_host_whole_gets_no_plain_offload(tmp_path):
    """671 billion parameters on a GPU of 24 GB: --cpu-offload-gb 1230 would fit in theory."""
    (tmp_path / "config.json").write_text(json.dumps(V3))
    plan = plan_model(tmp_path, {}, describe_machine("RTX 4090", 1, ""), "0.5.23")
    assert plan.changes == ()
    text = render_plan(plan, 100)
    assert "No single change of the launch makes it fit: the weights alone fill 54 x RTX 4090." in text

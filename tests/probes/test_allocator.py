"""The allocator variables, and who reads them."""

import pytest

from doctor.probes import allocator
from doctor.probes.base.edits import correct_command
from tests.probes.helpers import (
    LAUNCH,
    make_python,
    make_torch,
    problems,
    see_python,
    statuses,
)


def see_allocator(root, text, command=LAUNCH, torch="2.11.0", **environment):
    return see_python(
        root, make_python(make_torch(torch, "13.0")), command, environment={"PYTORCH_ALLOC_CONF": text, **environment}
    )


def test_allocator_key_that_this_torch_does_not_know(tmp_path):
    text = "expandable_segments:True,pinned_max_round_threshold_mb:16"
    context = see_allocator(tmp_path, text)
    (found,) = problems(allocator, context)
    assert "torch 2.11.0 does not know pinned_max_round_threshold_mb (it came with torch 2.13)" in found.summary
    assert correct_command(context.launch, [found]).startswith("PYTORCH_ALLOC_CONF=expandable_segments:True ")


def test_allocator_key_that_this_torch_knows(tmp_path):
    assert statuses(allocator, see_allocator(tmp_path, "pinned_max_round_threshold_mb:16", torch="2.13.0")) == ["ok"]


@pytest.mark.parametrize(
    ("text", "words"), [("expandable_segments", "cannot read"), ("expandable_segments:1", "True or False")]
)
def test_allocator_syntax(tmp_path, text, words):
    assert words in problems(allocator, see_allocator(tmp_path, text))[0].summary


def test_allocator_with_memory_saver(tmp_path):
    context = see_allocator(tmp_path, "expandable_segments:True", f"{LAUNCH} --enable-memory-saver")
    assert "--enable-memory-saver" in problems(allocator, context)[0].summary


def test_allocator_of_the_driver_s_own_kind_has_no_segments(tmp_path):
    (found,) = problems(allocator, see_allocator(tmp_path, "backend:cudaMallocAsync,expandable_segments:True"))
    assert (found.severity, "has no effect" in found.summary) == ("warning", True)


@pytest.mark.parametrize(
    ("text", "flags", "environment", "count"),
    [
        ("backend:cudaMallocAsync", "--enable-symm-mem", {}, 1),
        ("backend:cudaMallocAsync", "", {"SGLANG_MOONCAKE_CUSTOM_MEM_POOL": "NVLINK"}, 1),
        ("backend:cudaMallocAsync", "", {}, 0),
        ("expandable_segments:True", "--enable-symm-mem", {"SGLANG_MOONCAKE_CUSTOM_MEM_POOL": "NVLINK"}, 0),
    ],
)
def test_allocator_with_pools_of_torch(tmp_path, text, flags, environment, count):
    context = see_allocator(tmp_path, text, f"{LAUNCH} {flags}", **environment)
    found = problems(allocator, context)
    assert [problem.severity for problem in found] == ["error"] * count


def test_allocator_with_mooncake_over_efa(tmp_path):
    context = see_allocator(tmp_path, "expandable_segments:True", MOONCAKE_PROTOCOL="efa")
    assert "MOONCAKE_PROTOCOL" in problems(allocator, context)[0].summary


def test_allocator_with_two_variables(tmp_path):
    context = see_allocator(tmp_path, "expandable_segments:True", PYTORCH_CUDA_ALLOC_CONF="max_split_size_mb:64")
    assert "wins" in problems(allocator, context)[0].summary


def test_allocator_variable_that_an_old_torch_does_not_read(tmp_path):
    assert (
        "does not read"
        in problems(allocator, see_allocator(tmp_path, "expandable_segments:True", torch="2.8.0"))[0].summary
    )


def test_allocator_that_is_not_set(tmp_path):
    assert statuses(allocator, see_python(tmp_path, make_python())) == ["not-applicable"]

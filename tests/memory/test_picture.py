import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from doctor.memory.gpus import Machine
from doctor.memory.picture import divide_cells, draw_bar, render_plan
from doctor.memory.plan import plan_model
from doctor.memory.shapes import Row

from .helpers import H200, LLAMA, plan_fixture

PLANS = {
    "fits": lambda: plan_fixture("dense8b"),
    "tight": lambda: plan_fixture("dense8b", mem_fraction_static=0.999),
    "does not fit": lambda: plan_fixture("dense90b"),
    "unknown": lambda: plan_fixture("dense8b", Machine(None)),
    "busy": lambda: plan_fixture("dense8b", H200._replace(gpu_free=15 << 30)),
    "offload": lambda: plan_fixture("moe16", cpu_offload_gb=10),
}


@pytest.mark.parametrize("width", [40, 72, 100, 160])
@pytest.mark.parametrize("name", PLANS)
def test_render_plan_keeps_to_ascii_and_to_the_width(name, width):
    text = render_plan(PLANS[name](), width)
    assert text.isascii()
    assert text.endswith("\n")
    assert max(len(line) for line in text.splitlines()) <= width
    assert all(char == "\n" or char.isprintable() for char in text)


@pytest.mark.parametrize("width", [-5, 0, 10**9])
def test_render_plan_of_an_absurd_width_is_bounded(width):
    lines = render_plan(PLANS["fits"](), width).splitlines()
    assert max(len(line) for line in lines) <= 160


def test_render_plan_begins_with_the_verdict():
    lines = render_plan(PLANS["does not fit"](), 100).splitlines()
    assert lines[0] == "LlamaForCausalLM on 1 x H200, sglang 0.5.15.post1"
    assert lines[1] == "Verdict: DOES NOT FIT"
    assert "143 GiB of weights" in lines[2]


def test_render_plan_shows_every_number_a_user_compares():
    text = render_plan(PLANS["offload"](), 100)
    for part in ("W weights", "K KV cache", "O pinned offload", "--mem-fraction-static 0.903", "per token", "at once"):
        assert part in text


def test_render_plan_says_what_the_generation_supports():
    assert "(Hopper, sm90: bf16, fp8;" in render_plan(PLANS["fits"](), 120)


def test_render_plan_names_what_is_missing():
    text = render_plan(PLANS["does not fit"](), 100)
    assert "! missing" in text
    assert "|" in text.splitlines()[5]
    assert "Any one of these makes it fit:" in text


def test_render_plan_of_a_plan_that_fits_gives_no_advice():
    text = render_plan(PLANS["fits"](), 100)
    assert "makes it fit" not in text
    assert "No single change" not in text


def test_render_plan_without_a_gpu_has_no_gpu_table():
    text = render_plan(PLANS["unknown"](), 100)
    assert "Each GPU" not in text
    assert "Weights of one rank" in text


def test_render_plan_cleans_names_from_the_model(tmp_path):
    odd = {**LLAMA, "architectures": ["\x1b[31mEvil\nForCausalLM\u202e" + "x" * 500]}
    (tmp_path / "config.json").write_text(json.dumps(odd))
    text = render_plan(plan_model(tmp_path / "config.json", {}, H200, "0.5.23"), 80)
    assert "\x1b" not in text
    assert text.isascii()


@settings(deadline=None)
@given(st.lists(st.integers(0, 1 << 45), min_size=1, max_size=9), st.integers(38, 158))
def test_divide_cells_fills_the_bar_and_hides_nothing(sizes, cells):
    counts = divide_cells(sizes, cells)
    assert sum(counts) == (cells if sum(sizes) else 0)
    assert all(count > 0 for count, size in zip(counts, sizes, strict=True) if size)


def test_draw_bar_is_in_proportion():
    bar = draw_bar([Row("weights", 50, ""), Row("KV cache", 25, ""), Row("free", 25, "")], 100, 42)
    assert bar == "[" + "W" * 20 + "K" * 10 + "." * 10 + "]"


def test_draw_bar_marks_where_the_memory_ends():
    bar = draw_bar([Row("weights", 200, ""), Row("free", -100, "")], 100, 42)
    assert bar == "[" + "W" * 20 + "|" + "W" * 19 + "]"

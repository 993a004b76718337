import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from doctor.memory import kv
from doctor.memory.parallel import ONE_RANK, resolve_ranks
from doctor.memory.quant import Quant
from doctor.memory.weights import get_whole_stage

from .helpers import LLAMA, build
from .published import GEMMA3, GPT_OSS, QWEN_NEXT, V3

PLAIN = Quant("", None, None, frozenset(), "bf16", 2)


def measure(data, version="0.5.23", bits=16.0, **arguments):
    model = build(data, version, **arguments)
    return kv.measure_cell(model, get_whole_stage(model), bits)


def size(budget, data=LLAMA, context=1024, version="0.5.23", **arguments):
    ranks = resolve_ranks(arguments, version)
    return kv.size_pool(budget, measure(data, version, **arguments), arguments, ranks, context)


@pytest.mark.parametrize(
    ("data", "per_token"),
    [
        (LLAMA, 2 * 2 * 2 * 16 * 2),  # layers x (K, V) x heads x width x bytes
        (V3, 61 * 576 * 2),
        (GEMMA3, 62 * 2 * 16 * 128 * 2),  # every layer pays in full: no window pool for Gemma 3
        (QWEN_NEXT, 12 * 2 * 2 * 256 * 2),
    ],
)
def test_measure_cell_bytes_per_token(data, per_token):
    assert measure(data).full == per_token


def test_measure_cell_of_sliding_windows_splits_the_pools():
    cell = measure(GPT_OSS)
    assert (cell.full, cell.window) == (18 * 2 * 8 * 64 * 2, 18 * 2 * 8 * 64 * 2)
    assert (cell.ratio, cell.window_length) == (0.8, 128)


def test_measure_cell_before_window_pools_charges_every_layer():
    cell = measure(GPT_OSS, "0.5.6")
    assert (cell.full, cell.window) == (36 * 2 * 8 * 64 * 2, 0)


def test_measure_cell_with_the_window_pool_switched_off():
    assert measure(GPT_OSS, disable_hybrid_swa_memory=True).window == 0


@pytest.mark.parametrize(
    ("name", "bits"), [("auto", 16), ("fp8_e4m3", 8), ("nvfp4", 4.5), ("mxfp8", 8.25), ("bfloat16", 16), ("", 16)]
)
def test_choose_bits(name, bits):
    assert kv.choose_bits({"kv_cache_dtype": name}, PLAIN) == bits


def test_size_pool_fills_the_budget():
    assert size(1_000_000).tokens == 1_000_000 // 256


def test_size_pool_is_capped_and_page_aligned():
    assert size(1_000_000, max_total_tokens=1000).tokens == 1000
    assert size(1_000_000, page_size=64).tokens == 1_000_000 // 256 // 64 * 64


def test_size_pool_of_nothing_is_empty():
    assert size(0).tokens == 0


def test_size_pool_with_states_splits_by_the_ratio():
    budget = 100 << 30
    cell = measure(QWEN_NEXT)
    pool = size(budget, QWEN_NEXT)
    assert pool.state_size == pytest.approx(budget * 0.9 / 1.9, rel=0.01)
    assert pool.states == pytest.approx(budget * 0.9 / 1.9 / cell.state, abs=2)
    assert pool.cache_size + pool.state_size <= budget


def test_size_pool_with_states_without_radix_cache_follows_the_requests():
    assert size(100 << 30, QWEN_NEXT, disable_radix_cache=True, max_running_requests=64).states == 64


def test_size_pool_with_given_states():
    assert size(100 << 30, QWEN_NEXT, max_mamba_cache_size=32).states == 32


@pytest.mark.parametrize(
    ("tokens", "context", "requests"), [(58_238_694, 2048, 4096), (1_085_065, 40_960, 4096), (100_000, 40_960, 2048)]
)
def test_count_requests_stays_between_2048_and_4096(tokens, context, requests):
    assert kv.count_requests(tokens, {}, ONE_RANK, context) == requests


def test_count_requests_divides_a_given_number_among_attention_replicas():
    ranks = resolve_ranks({"tp_size": 4, "dp_size": 4, "enable_dp_attention": True}, "0.5.23")
    assert kv.count_requests(1000, {"max_running_requests": 64}, ranks, 10) == 16


def test_measure_bookkeeping_of_the_recorded_pool():
    """0.63 GB: from 97.43 after the pool to 96.80 at `Memory pool end`."""
    pool = kv.Pool(1_085_065, 0, 0, 4096, 0, 0)
    assert kv.measure_bookkeeping(pool, 40_960, 1) / (1 << 30) == pytest.approx(0.633, rel=0.01)


def test_count_context_is_limited_by_the_window_pool():
    pool, cell = kv.Pool(10_000, 100, 0, 1, 0, 0), kv.Cell(1, 1, 0.01, 0, 0, 50)
    assert kv.count_context(pool, cell, 1000) == 2


def test_count_context_is_limited_by_the_states():
    pool, cell = kv.Pool(10_000, 0, 3, 1, 0, 0), kv.Cell(1, 0, 0.8, 1, 0, 0)
    assert kv.count_context(pool, cell, 10) == 3


@settings(deadline=None)
@given(st.integers(0, 1 << 40), st.sampled_from([LLAMA, V3, GPT_OSS, QWEN_NEXT]), st.integers(1, 1 << 20))
def test_size_pool_never_exceeds_its_budget(budget, data, context):
    pool = size(budget, data, context)
    assert pool.cache_size + (pool.state_size if pool.tokens else 0) <= budget
    assert pool.tokens >= 0

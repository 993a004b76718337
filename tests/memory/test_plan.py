"""Whole plans, against the numbers that real servers logged (SGLang 0.5.15.post1 on H200, 0.5.23 on a CPU)."""

import contextlib
import json
from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from doctor.errors import DoctorError
from doctor.memory.gpus import Machine, describe_machine, find_gpu
from doctor.memory.plan import plan_model, to_data
from doctor.memory.units import GIB

from .helpers import (
    FIXTURES,
    H200,
    LLAMA,
    get_row,
    plan_fixture,
)
from .test_config import JSON

WEIGHTS, TOKENS, HOST = 0.03, 0.05, 0.05


class Recorded(NamedTuple):
    """A recording's log: "Load weight end ... mem usage", "#tokens", "K size" + "V size" (its GB are GiB)."""

    recording: str
    model: str
    arguments: dict
    gpus: int
    weights: float
    tokens: int
    cache: float


LOW = {"mem_fraction_static": 0.2}
OFFLOAD_GB = {"mem_fraction_static": 0.3, "cpu_offload_gb": 10, "disable_cuda_graph": True}
RECORDED = [
    Recorded("healthy, hang, kill9, port_used, fa3_missing", "tiny", LOW, 1, 0.00, 58_238_694, 27.78),
    Recorded("tp2", "tiny", {**LOW, "tp_size": 2}, 2, 0.00, 115_997_337, 27.66),
    Recorded("memfrac_low", "dense8b", {"mem_fraction_static": 0.05}, 1, 13.02, 0, 0.0),
    Recorded("offload_gb", "moe16", OFFLOAD_GB, 1, 8.55, 1_085_065, 33.12),
]
each_recording = pytest.mark.parametrize("row", RECORDED, ids=[row.recording for row in RECORDED])


def get_weights(plan):
    return sum(row.size for row in plan.weights) - plan.offload.moved


def plan_recorded(row):
    return plan_fixture(row.model, H200._replace(gpus=row.gpus), **row.arguments)


@each_recording
def test_plan_gives_the_recorded_weights(row):
    # The log rounds to 0.01 GB.
    assert get_weights(plan_recorded(row)) / GIB == pytest.approx(row.weights, rel=WEIGHTS, abs=0.005)


@each_recording
def test_plan_gives_the_recorded_tokens(row):
    plan = plan_recorded(row)
    assert plan.tokens == pytest.approx(row.tokens, rel=TOKENS)
    assert get_row(plan.gpu_rows, "KV cache") / GIB == pytest.approx(row.cache, rel=TOKENS)


@pytest.mark.parametrize(
    ("model", "arguments", "gpus", "pool_end"),
    [
        ("tiny", LOW, 1, 110.88),
        ("tiny", {**LOW, "tp_size": 2}, 2, 109.72),
        ("moe16", OFFLOAD_GB, 1, 96.80),
    ],
)
def test_plan_gives_the_recorded_memory_after_the_pool(model, arguments, gpus, pool_end):
    """`Memory pool end. avail mem`: everything but graphs, activations and offloaded layers at work is taken."""
    plan = plan_fixture(model, H200._replace(gpus=gpus), **arguments)
    later = sum(get_row(plan.gpu_rows, name) for name in ("CUDA graphs", "activations", "offloaded layers at work"))
    assert (get_row(plan.gpu_rows, "free") + later) / GIB == pytest.approx(pool_end, rel=0.01)


def test_plan_gives_the_recorded_fraction_and_graphs():
    """server_args of gpu_busy and load_oom: 0.903, chunks of 8192, 36 decode and 58 prefill graphs."""
    plan = plan_fixture("dense8b")
    assert (plan.fraction, plan.chunk) == (0.903, 8192)
    assert (len(plan.decode_sizes), plan.decode_sizes[-1]) == (36, 256)
    assert (len(plan.prefill_sizes), plan.prefill_sizes[-1]) == (58, 8192)


def test_plan_of_a_fraction_too_low_names_the_recorded_minimum():
    """memfrac_low: "minimum viable = 0.0942"; a full request of 4096 tokens needs a little more."""
    plan = plan_fixture("dense8b", mem_fraction_static=0.05)
    assert plan.verdict == "does not fit"
    assert plan.window[0] == pytest.approx(0.0942, abs=0.005)
    assert "leaves nothing for the KV cache" in plan.reasons[0]


def test_plan_of_a_busy_gpu_does_not_advise_a_higher_fraction():
    """gpu_busy: 13.61 GB free before loading, 0.59 after; SGLang itself advised 0.958."""
    plan = plan_fixture("dense8b", H200._replace(gpu_free=int(14.28 * GIB)))
    assert plan.verdict == "does not fit"
    assert "above 0.95" in plan.reasons[0]
    assert plan.window[0] > plan.window[1]
    assert [change.edits for change in plan.changes] == [()]
    assert "free the GPU" in plan.changes[0].title


def test_plan_of_weights_larger_than_the_gpu():
    """load_oom: CUDA out of memory while loading 143 GiB into 139."""
    plan = plan_fixture("dense90b")
    assert plan.verdict == "does not fit"
    assert "out of memory while loading" in plan.reasons[0]


def test_plan_of_grouped_offload_on_another_family_is_a_sure_crash():
    """offload16: TypeError 'NoneType' object is not callable."""
    plan = plan_fixture("moe16", offload_group_size=1, offload_num_in_group=1)
    assert plan.verdict == "does not fit"
    assert "NoneType" in plan.reasons[0]


def test_plan_of_an_unknown_allocator_setting_is_a_sure_crash():
    """offload16_alloc: exit -11."""
    setting = "pinned_max_round_threshold_mb:16,pinned_max_cached_size_mb:16"
    plan = plan_fixture("ds12", offload_group_size=1, PYTORCH_ALLOC_CONF=setting)
    assert "segmentation fault" in plan.reasons[0]


@pytest.mark.parametrize(
    ("model", "arguments", "before", "after"),
    [
        # offload_gb: used memory before the weights and after them; two samples, GiB.
        ("moe16", {"cpu_offload_gb": 10, "disable_cuda_graph": True}, 2.67, 16.51),
        # offload_deepseek_slow: available memory.
        ("ds12", {"offload_group_size": 1, "disable_cuda_graph": True}, 2.87, 19.87),
    ],
)
def test_plan_gives_the_recorded_pinned_memory(model, arguments, before, after):
    plan = plan_fixture(model, mem_fraction_static=0.3, **arguments)
    assert get_row(plan.host_rows, "pinned offload") / GIB == pytest.approx(after - before, rel=HOST)


def test_plan_gives_the_recorded_peak_of_the_host():
    """peak_rss_bytes of offload_deepseek_slow: 21.9 GB."""
    plan = plan_fixture("ds12", mem_fraction_static=0.3, offload_group_size=1, disable_cuda_graph=True)
    assert plan.host_peak == pytest.approx(21_900_759_040, rel=HOST)


def test_plan_of_the_recorded_host_that_ran_out():
    """offload_host_oom: 11.76 GB were available; the kernel killed the scheduler after layer 6 of 11."""
    machine = H200._replace(ram_available=11_763_269_632)
    plan = plan_fixture("ds12", machine, mem_fraction_static=0.3, offload_group_size=1, disable_cuda_graph=True)
    assert plan.verdict == "does not fit"
    assert "the host needs 20.1" in plan.reasons[0]


@pytest.mark.parametrize("measured", [0.00, 0.01])
def test_plan_of_the_recorded_cpu_servers(measured):
    """All 17 CPU recordings that loaded: #tokens 4096, K and V 0.00 GB, weights 0.00 or 0.01 GB (as rounded)."""
    machine = Machine(None, ram=24 * GIB, ram_available=21 * GIB)
    plan = plan_fixture("tiny", machine, "0.5.23", device="cpu", max_total_tokens=4096)
    assert (plan.verdict, plan.tokens) == ("fits", 4096)
    assert get_row(plan.host_rows, "KV cache") == 4096 * 512
    assert get_row(plan.host_rows, "weights") / GIB == pytest.approx(measured, abs=0.015)
    assert plan.decode_sizes == ()


def test_plan_gives_the_recorded_allocation_of_a_cpu_pool():
    """memlimit_kv: 5 120 000 256 bytes for one layer of 20 000 000 tokens (and one of padding)."""
    machine = Machine(None, ram=24 * GIB, ram_available=21 * GIB)
    plan = plan_fixture("tiny", machine, "0.5.23", device="cpu", max_total_tokens=20_000_000)
    assert (plan.tokens + 1) * plan.bytes_per_token / 2 == 5_120_000_256


def test_plan_without_a_gpu_still_answers_the_rest():
    plan = plan_fixture("dense8b", Machine(None))
    assert plan.verdict == "unknown"
    assert plan.bytes_per_token == 131072
    assert get_weights(plan) / GIB == pytest.approx(13.02, rel=0.01)


def test_plan_of_more_gpus_than_there_are():
    plan = plan_fixture("dense8b", tp_size=2)
    assert plan.reasons == ("2 GPUs are needed on this host, 1 are there",)


def test_plan_over_two_nodes_needs_half_of_them_here():
    plan = plan_fixture("dense8b", H200._replace(gpus=8), tp_size=16, nnodes=2)
    assert plan.gpus_needed == 16
    assert not any("GPUs are needed" in reason for reason in plan.reasons)


def test_plan_with_pipeline_stages_shows_the_fullest():
    whole = plan_fixture("dense8b")
    half = plan_fixture("dense8b", H200._replace(gpus=2), pp_size=2)
    assert get_weights(half) == pytest.approx(get_weights(whole) / 2, rel=0.01)


def test_plan_with_attention_dp_multiplies_capacity():
    machine = H200._replace(gpus=4)
    one = plan_fixture("ds12", machine, tp_size=4)
    four = plan_fixture("ds12", machine, tp_size=4, dp_size=4, enable_dp_attention=True)
    assert four.capacity[0][1] > 3 * one.capacity[0][1]


def test_plan_of_a_context_beyond_the_pool_is_tight():
    plan = plan_fixture("dense8b", context_length=2_000_000)
    assert plan.verdict == "tight"
    assert any("less than one request of the full context" in reason for reason in plan.reasons)
    # The table of 2048 requests x 2 000 000 positions alone takes 15 GiB.
    assert any("graphs, activations and tables need 17.00 GiB" in reason for reason in plan.reasons)


def test_plan_of_a_fraction_too_high_is_tight_and_offers_the_window():
    plan = plan_fixture("dense8b", mem_fraction_static=0.999)
    assert plan.verdict == "tight"
    assert "out of memory at capture" in plan.reasons[0]
    assert plan.changes[0].edits[0].flag == "--mem-fraction-static"


def test_plan_rows_add_up_to_the_gpu():
    plan = plan_fixture("dense8b")
    assert sum(row.size for row in plan.gpu_rows) == pytest.approx(plan.gpu_total, abs=10)


def test_plan_on_an_old_gpu_notes_what_its_generation_lacks():
    plan = plan_fixture("dense8b", describe_machine("Tesla T4", 1, "64GiB"), "0.5.23")
    assert any("sm75" in note for note in plan.notes)


def test_plan_names_what_it_does_not_count():
    plan = plan_fixture("dense8b", enable_lora=True, speculative_algorithm="EAGLE3", speculative_draft_model_path="/d")
    assert any("LoRA" in note for note in plan.notes)
    assert any("/d is not counted" in note for note in plan.notes)


def test_to_data_is_json():
    plan = plan_fixture("dense90b")
    data = json.loads(json.dumps(to_data(plan)))
    assert data["gpu_rows"][0]["name"] == "CUDA and NCCL"
    assert data["changes"][0]["edits"][0]["flag"].startswith("--")


@settings(max_examples=60, deadline=None)
@given(
    st.dictionaries(
        st.sampled_from(
            [
                "architectures", "hidden_size", "num_hidden_layers", "num_attention_heads", "vocab_size", "head_dim",
                "intermediate_size", "quantization_config", "rope_scaling", "vision_config", "text_config",
                "layer_types", "num_experts", "max_position_embeddings", "kv_lora_rank", "qk_nope_head_dim",
            ]
        ),
        JSON,
    )
)  # fmt: skip
def test_plan_of_any_config_returns_or_raises_doctor_error(tmp_path_factory, odd):
    path = tmp_path_factory.getbasetemp() / "config.json"
    path.write_text(json.dumps({**LLAMA, **odd}))
    with contextlib.suppress(DoctorError):
        assert plan_model(path, {"tp_size": 2}, H200, "0.5.23").verdict


@settings(max_examples=60, deadline=None)
@given(
    st.dictionaries(
        st.sampled_from(
            [
                "tp_size", "pp_size", "dp_size", "ep_size", "enable_dp_attention", "mem_fraction_static", "page_size",
                "chunked_prefill_size", "context_length", "max_total_tokens", "max_running_requests", "cpu_offload_gb",
                "offload_group_size", "offload_num_in_group", "offload_prefetch_step", "kv_cache_dtype", "quantization",
                "hicache_size", "enable_hierarchical_cache", "cuda_graph_max_bs_decode", "cuda_graph_bs_decode", "device",
            ]
        ),
        JSON,
    ),
    st.sampled_from(["0.4.6.post5", "0.5.2", "0.5.12", "0.5.15.post1", "0.5.23", "main"]),
)  # fmt: skip
def test_plan_of_any_arguments_is_total(arguments, version):
    plan = plan_model(FIXTURES / "ds12", arguments, H200, version)
    assert plan.verdict in {"fits", "tight", "does not fit"}
    assert plan.tokens >= 0


def test_machine_of_the_helpers_is_the_recorded_one():
    assert find_gpu("H200").memory_mib == H200.gpu.memory_mib

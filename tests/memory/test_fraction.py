"""SGLang's own settings, by version.

The table was made by calling the functions of the wheels themselves; 1800 random launches over the twelve
versions from 0.5.4 to 0.5.23 gave the same chunk, graph sizes and fraction as this package.
"""

import pytest

from doctor.memory import config as cfg
from doctor.memory.fraction import Subject, choose_defaults
from doctor.memory.parallel import resolve_ranks
from doctor.memory.versions import parse_version

from .helpers import LLAMA, build

LATENT = LLAMA | {
    "architectures": ["DeepseekV2ForCausalLM"],
    "num_attention_heads": 64,
    "kv_lora_rank": 8,
    "qk_rope_head_dim": 8,
    "qk_nope_head_dim": 8,
}
DP = {"tp_size": 8, "dp_size": 8, "enable_dp_attention": True}
TWO = {"tp_size": 2, "pp_size": 2, "max_running_requests": 64}
EAGLE = {"speculative_algorithm": "EAGLE"}

# Version, GPU in MiB, arguments, MLA; chunk, largest decode batch, decode graphs, prefill graphs, fraction.
WHEELS = [
    ("0.5.4", 24564, {}, False, 2048, 16, 6, 0, 0.848),
    ("0.5.4", 32607, DP, True, 2048, 80, 14, 0, 0.795),
    ("0.5.4", 81559, {"tp_size": 8}, False, 8192, 512, 52, 0, 0.818),
    ("0.5.4", 143771, TWO, False, 8192, 256, 36, 0, 0.904),
    ("0.5.4", 183359, TWO, False, 16384, 512, 52, 0, 0.855),
    ("0.5.8", 24564, EAGLE, False, 2048, 24, 16, 0, 0.764),
    ("0.5.8", 32607, {"tp_size": 8}, False, 2048, 80, 14, 0, 0.854),
    ("0.5.8", 81559, TWO, False, 8192, 256, 36, 0, 0.831),
    ("0.5.8", 143771, DP, True, 8192, 512, 52, 0, 0.769),
    ("0.5.10", 24564, {}, False, 2048, 24, 7, 42, 0.833),
    ("0.5.10", 32607, DP, True, 2048, 80, 14, 0, 0.795),
    ("0.5.10", 81559, {"tp_size": 8}, False, 8192, 512, 52, 58, 0.812),
    ("0.5.10", 143771, TWO, False, 8192, 256, 36, 0, 0.904),
    ("0.5.12", 24564, {"tp_size": 8}, True, 2048, 80, 14, 42, 0.743),
    ("0.5.12", 32607, TWO, False, 2048, 24, 7, 0, 0.873),
    ("0.5.12", 81559, DP, True, 8192, 512, 52, 0, 0.592),
    ("0.5.12", 143771, {"tp_size": 8}, False, 8192, 512, 52, 58, 0.893),
    ("0.5.12", 183359, {"tp_size": 8}, False, 16384, 512, 52, 74, 0.849),
    ("0.5.15.post1", 24564, DP, True, 2048, 80, 14, 0, 0.728),
    ("0.5.15.post1", 32607, {}, False, 2048, 24, 7, 42, 0.874),
    ("0.5.15.post1", 81559, EAGLE, False, 8192, 256, 51, 58, 0.83),
    ("0.5.15.post1", 143771, {"tp_size": 8}, True, 8192, 512, 52, 0, 0.897),
    ("0.5.15.post1", 183359, {"tp_size": 8}, True, 16384, 512, 52, 0, 0.852),
    ("0.5.18", 24564, {"tp_size": 8}, True, 2048, 80, 14, 42, 0.743),
    ("0.5.18", 32607, TWO, False, 2048, 24, 7, 42, 0.863),
    ("0.5.18", 81559, DP, True, 8192, 512, 52, 42, 0.573),
    ("0.5.21", 24564, TWO, False, 4096, 48, 10, 0, 0.704),
    ("0.5.21", 32607, {"tp_size": 8}, True, 4096, 160, 24, 42, 0.708),
    ("0.5.21", 81559, {}, False, 8192, 256, 36, 58, 0.83),
    ("0.5.21", 143771, EAGLE, False, 8192, 256, 51, 58, 0.903),
    ("0.5.21", 183359, EAGLE, False, 16384, 512, 67, 74, 0.854),
    ("0.5.22", 24564, {}, False, 4096, 48, 10, 50, 0.704),
    ("0.5.22", 143771, TWO, False, 8192, 64, 12, 0, 0.907),
    ("0.5.23", 24564, {"tp_size": 8}, False, 4096, 160, 24, 50, 0.658),
    ("0.5.23", 32607, EAGLE, False, 4096, 48, 23, 50, 0.777),
    ("0.5.23", 81559, {"tp_size": 8}, True, 8192, 512, 52, 58, 0.799),
    ("0.5.23", 143771, {}, False, 8192, 256, 36, 58, 0.903),
    ("0.5.23", 183359, {}, False, 16384, 512, 52, 74, 0.854),
]


def choose(version, memory, arguments, data=LLAMA):
    ranks = resolve_ranks(arguments, version)
    model = build(data, version, **arguments)
    return choose_defaults(Subject(memory, arguments, ranks, model, cfg.make_config(data), parse_version(version)))


@pytest.mark.parametrize("row", WHEELS)
def test_choose_defaults_as_the_wheel_does(row):
    version, memory, arguments, latent, *expected = row
    found = choose(version, memory, arguments, LATENT if latent else LLAMA)
    sizes = [len(found.graphs.decode), len(found.graphs.prefill)]
    assert [found.chunk, found.graphs.decode_max, *sizes] == expected[:4]
    assert found.fraction == pytest.approx(expected[4])


@pytest.mark.parametrize(
    ("ranks", "memory", "fraction"),
    [(1, 81920, 0.88), (2, 81920, 0.87), (4, 24564, 0.85), (8, 81559, 0.81), (16, 81559, 0.79), (1, 143771, 0.872)],
)
def test_choose_defaults_of_the_first_version_is_a_table(ranks, memory, fraction):
    assert choose("0.4.6.post5", memory, {"tp_size": ranks}, LATENT).fraction == pytest.approx(fraction, abs=0.001)


@pytest.mark.parametrize(("memory", "fraction"), [(24564, 0.879), (81559, 0.874), (143771, 0.911), (183359, 0.821)])
def test_choose_defaults_of_0_5_2_reserves_by_gpu_size(memory, fraction):
    assert choose("0.5.2", memory, {}).fraction == fraction


@pytest.mark.parametrize(("version", "chunk"), [("0.4.6.post5", 8192), ("0.5.2", 4096), ("0.5.23", 4096)])
def test_choose_defaults_without_a_known_gpu(version, chunk):
    assert choose(version, None, {}).chunk == chunk


def test_choose_defaults_keeps_a_given_fraction():
    found = choose("0.5.23", 81559, {"mem_fraction_static": 0.5})
    assert (found.fraction, found.is_given) == (0.5, True)


@pytest.mark.parametrize("value", [0, -1, 1.5, "0.9", None])
def test_choose_defaults_ignores_a_fraction_out_of_range(value):
    assert not choose("0.5.23", 81559, {"mem_fraction_static": value}).is_given


def test_chunk_minus_one_switches_chunking_off():
    assert choose("0.5.23", 81559, {"chunked_prefill_size": -1}).chunk == 0


@pytest.mark.parametrize("name", ["disable_cuda_graph", "disable_decode_cuda_graph"])
def test_graphs_of_decode_switched_off(name):
    assert choose("0.5.23", 81559, {name: True}).graphs.decode == ()


@pytest.mark.parametrize(
    "arguments",
    [
        {"disable_cuda_graph": True},
        {"disable_piecewise_cuda_graph": True},
        {"cuda_graph_backend_prefill": "disabled"},
        {"pp_size": 2},
        {"disaggregation_mode": "decode"},
        {"moe_a2a_backend": "mooncake"},
    ],
)
def test_graphs_of_prefill_switched_off(arguments):
    assert choose("0.5.23", 81559, arguments).graphs.prefill == ()


def test_graphs_of_prefill_switched_on_explicitly_survive_what_disables_the_default():
    assert choose("0.5.23", 81559, {"pp_size": 2, "cuda_graph_backend_prefill": "breakable"}).graphs.prefill


def test_graphs_of_given_sizes():
    found = choose("0.5.23", 81559, {"cuda_graph_bs_decode": [1, 2, 64]})
    assert (found.graphs.decode, found.graphs.decode_max) == ((1, 2, 64), 64)


def test_graphs_of_an_absurd_size_stay_bounded():
    assert len(choose("0.5.23", 81559, {"cuda_graph_max_bs_decode": 10**12}).graphs.decode) < 1000


def test_vision_tower_lowers_the_fraction():
    data = LLAMA | {"vision_config": {"num_hidden_layers": 24, "hidden_size": 1024}}
    assert choose("0.5.15", 81559, {}, data).fraction == pytest.approx(0.835 * 0.95)


def test_large_vision_tower_lowers_it_to_four_fifths_at_most():
    data = LLAMA | {"vision_config": {"num_hidden_layers": 64, "hidden_size": 4096}}
    assert choose("0.5.15", 81559, {}, data).fraction == pytest.approx(0.835 * 0.95 * 0.8)


@pytest.mark.parametrize(
    ("text", "reached", "above"),
    [
        ("0.5.15.post1", (0, 5, 15), (0, 5, 16)),
        ("v0.5.23", (0, 5, 23), (0, 5, 24)),
        ("0.5.23+cu130", (0, 5, 23), (0, 5, 24)),
        ("0.5.24.dev7", (0, 5, 24), (0, 5, 25)),
        ("0.5.10rc0", (0, 5, 10), (0, 5, 11)),
        ("0.4.10.post2", (0, 4, 10), (0, 5)),
        ("", (9999,), (10_000,)),
        ("main", (9999,), (10_000,)),
    ],
)
def test_parse_version_compares(text, reached, above):
    assert reached <= parse_version(text) < above

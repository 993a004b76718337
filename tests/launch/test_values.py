from __future__ import annotations

import pytest

from doctor.launch.command import parse_command
from doctor.launch.conditions import does_apply, holds, parse_condition
from doctor.launch.torch_versions import torch_of, unknown_keys
from doctor.launch.uses import read_uses
from doctor.launch.values import convert, read_values, repair_json

from .helpers import NEWEST


def values(arguments):
    return read_values(read_uses(parse_command(f"sglang serve m {arguments}"), NEWEST), NEWEST)


def is_true(condition, arguments):
    terms = parse_condition(condition)
    given = values(arguments)
    return does_apply(terms, given) and all(holds(term, given) for term in terms)


@pytest.mark.parametrize(
    ("word", "number"), [("8192", 8192), ("128k", 128000), ("1.5k", 1500), ("128Ki", 131072), ("2M", 2_000_000)]
)
def test_convert_reads_human_numbers(word, number):
    assert convert(word, "human-int") == number


@pytest.mark.parametrize("word", ["1.5Ki", "k", "8 k", "1e3", ""])
def test_convert_refuses_other_human_numbers(word):
    with pytest.raises(ValueError, match="invalid literal"):
        convert(word, "human-int")


def test_read_values_gives_types_defaults_and_the_last_use():
    found = values("--tp 2 --tp 4 --trust-remote-code --cuda-graph-bs-decode 1 2 --no-dcp-replicate-q-proj")
    assert [found.read(name) for name in ("tp_size", "trust_remote_code", "dp_size")] == [4, True, 1]
    assert found.read("cuda_graph_bs_decode") == [1, 2]
    assert found.read("dcp_replicate_q_proj") is False
    assert found.read("swa_full_tokens_ratio") == 0.8
    assert found.read("attention_backend") is None


def test_read_values_does_not_know_variables_and_mistakes():
    assert values("--tp $TP --port x").unknown == {"tp_size", "port"}
    assert values("--tp $TP --tp 2").unknown == frozenset()


@pytest.mark.parametrize(
    ("condition", "arguments"),
    [
        ("use_ray", "--use-ray"),
        ("not use_ray", ""),
        ("tp_size * pp_size % nnodes != 0", "--tp 3 --nnodes 2"),
        ("max_loaded_loras > max_loras_per_batch * 2", "--max-loaded-loras 17"),
        ("schedule_policy not in fcfs|lof", "--schedule-policy lpm"),
        ("schedule_policy in fcfs|lof and tp_size >= 2", "--tp 2"),
        ("api_key is set and sidecar is none", "--api-key x"),
        ("served_model_name has :", "--served-model-name a:b"),
        ("chunked_prefill_size != -1", ""),
        ("swa_full_tokens_ratio < 0.9", ""),
    ],
)
def test_holds(condition, arguments):
    assert is_true(condition, arguments)


@pytest.mark.parametrize(
    ("condition", "arguments"),
    [
        ("use_ray", ""),
        ("tp_size * pp_size % nnodes != 0", "--tp 4 --nnodes 2"),
        ("max_loaded_loras > max_loras_per_batch * 2", ""),
        ("chunked_prefill_size % page_size != 0", "--page-size 64"),
        ("tp_size > 1", "--tp $TP"),
        ("no_such_field > 1", ""),
        ("api_key is set", ""),
    ],
)
def test_holds_not(condition, arguments):
    assert not is_true(condition, arguments)


@pytest.mark.parametrize(
    ("sglang", "torch"),
    [("0.4.0", "2.6.0"), ("0.5.4", "2.8.0"), ("0.5.15.post1", "2.11.0"), ("0.5.19", "2.13.0"), ("0.5.23", "2.14.1")],
)
def test_torch_of(sglang, torch):
    assert torch_of(sglang) == torch


def test_unknown_keys_depend_on_the_torch_version():
    keys = ["expandable_segments", "pinned_max_round_threshold_mb", "typo"]
    assert unknown_keys(keys, "2.11.0") == ["pinned_max_round_threshold_mb", "typo"]
    assert unknown_keys(keys, "2.13.0") == ["typo"]


@pytest.mark.parametrize(
    ("word", "repaired"),
    [
        ("{temperature:0.7,top_p:0.8,top_k:20}", '{"temperature":0.7,"top_p":0.8,"top_k":20}'),
        ("{'a': True, 'b': [None, 'x y']}", '{"a": true, "b": [null, "x y"]}'),
        ("{rope_scaling: {type: yarn, factor: 4.0}}", '{"rope_scaling": {"type": "yarn", "factor": 4.0}}'),
        ("{a}", None),
        ("temperature:0.7", None),
        ("", None),
    ],
)
def test_repair_json_puts_the_quotes_back(word, repaired):
    assert repair_json(word) == repaired

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from doctor.errors import DoctorError
from doctor.memory import config as cfg

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


@pytest.mark.parametrize("value", [0, -3, True, "12", None, 1.5, float("inf"), 1 << 60, [4]])
def test_get_int_of_what_is_no_size_is_none(value):
    assert cfg.get_int({"hidden_size": value}, "hidden_size") is None


def test_get_int_takes_the_first_name_that_holds_a_number():
    assert cfg.get_int({"n_embd": 12, "hidden_size": "x"}, "hidden_size", "n_embd") == 12


def test_get_int_of_a_whole_float_counts():
    assert cfg.get_int({"hidden_size": 4096.0}, "hidden_size") == 4096


@settings(deadline=None)
@given(st.dictionaries(st.text(max_size=8), JSON, max_size=4), st.text(max_size=8))
def test_getters_accept_any_json(data, name):
    assert cfg.get_float(data, name, 1.5) >= 0
    assert isinstance(cfg.get_text(data, name), str)
    assert isinstance(cfg.get_list(data, name), list)
    assert isinstance(cfg.get_map(data, name), dict)
    assert cfg.get_flag(data, name) in {True, False}


def test_make_config_finds_the_language_model_two_levels_down():
    config = cfg.make_config({"thinker_config": {"text_config": {"hidden_size": 5}}})
    assert cfg.need(config, "hidden_size") == 5


def test_need_falls_back_to_the_outer_config():
    config = cfg.make_config({"vocab_size": 9, "text_config": {"hidden_size": 5}})
    assert cfg.need(config, "vocab_size") == 9


def test_need_of_an_absent_size_names_it():
    with pytest.raises(cfg.MissingSizeError, match="vocab_size"):
        cfg.need(cfg.make_config({}), "vocab_size")


@pytest.mark.parametrize(
    ("data", "length"),
    [
        ({"max_position_embeddings": 4096}, 4096),
        ({}, 2048),
        ({"max_position_embeddings": 32768, "rope_scaling": {"type": "dynamic", "factor": 2.0}}, 65536),
        ({"max_position_embeddings": 131072, "rope_scaling": {"rope_type": "llama3", "factor": 8.0}}, 131072),
        (
            {
                "max_position_embeddings": 163840,
                "rope_scaling": {"factor": 40, "original_max_position_embeddings": 4096},
            },
            163840,
        ),
        ({"max_position_embeddings": 4096, "rope_parameters": {"rope_type": "linear", "factor": 2.0}}, 8192),
        ({"max_position_embeddings": 4096, "rope_parameters": {"rope_type": "default", "rope_theta": 1e6}}, 4096),
        ({"max_position_embeddings": 4096, "rope_parameters": {"full_attention": {"factor": 8.0}}}, 4096),
        ({"model_max_length": 8192, "max_position_embeddings": 4096}, 8192),
    ],
)
def test_get_context_length_as_sglang_derives_it(data, length):
    assert cfg.get_context_length(cfg.make_config(data)) == length


def test_count_layers_of_an_absurd_number_is_an_error():
    with pytest.raises(DoctorError, match="at most 2048"):
        cfg.count_layers(cfg.make_config({"num_hidden_layers": 10**9}))


@pytest.mark.parametrize(
    ("raw", "reason"),
    [(b"{", "not JSON"), (b"[1]", "not a JSON object"), (b"\xff\xfe", "not JSON"), (b"[" * 200_000, "not JSON")],
)
def test_parse_json_of_damaged_text_is_an_error(tmp_path, raw, reason):
    path = tmp_path / "config.json"
    path.write_bytes(raw)
    with pytest.raises(DoctorError, match=reason):
        cfg.read_json(path)


def test_read_json_beyond_its_bound_is_an_error(tmp_path):
    path = tmp_path / "config.json"
    path.write_text(json.dumps({"a": "x" * 100}))
    with pytest.raises(DoctorError, match="larger than"):
        cfg.read_json(path, limit=50)


def test_read_json_of_a_folder_is_an_error(tmp_path):
    with pytest.raises(DoctorError):
        cfg.read_json(tmp_path)


def test_get_head_dim_without_the_key_divides():
    assert cfg.get_head_dim(cfg.make_config({"hidden_size": 128, "num_attention_heads": 4})) == 32

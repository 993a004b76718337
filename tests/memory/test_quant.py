import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from doctor.memory import config as cfg
from doctor.memory import quant


def read(section, wanted="", dtype="auto", **config):
    return quant.read_quant(cfg.make_config({"quantization_config": section, **config}), {}, wanted, dtype)


@pytest.mark.parametrize(
    ("section", "scheme"),
    [
        ({"quant_method": "fp8", "weight_block_size": [128, 128]}, quant.FP8_BLOCK),
        ({"quant_method": "fp8"}, quant.FP8_CHANNEL),
        ({"quant_method": "awq", "bits": 4, "group_size": 128}, quant.make_scheme(4, 128, zeros=True)),
        ({"quant_method": "gptq", "bits": 8, "group_size": 32, "sym": True}, quant.make_scheme(8, 32, zeros=False)),
        ({"quant_method": "modelopt", "quant_algo": "NVFP4"}, quant.NVFP4),
        ({"quant_algo": "FP8"}, quant.FP8),
        ({"quant_method": "bitsandbytes", "load_in_4bit": True}, quant.NF4),
        ({"quant_method": "bitsandbytes", "load_in_8bit": True}, quant.INT8),
        (
            {
                "quant_method": "compressed-tensors",
                "config_groups": {"group_0": {"weights": {"num_bits": 4, "type": "int", "group_size": 128}}},
            },
            quant.make_scheme(4, 128, zeros=False),
        ),
        (
            {
                "quant_method": "compressed-tensors",
                "config_groups": {"g": {"weights": {"num_bits": 4, "type": "float", "group_size": 16}}},
            },
            quant.NVFP4,
        ),
        (
            {
                "quant_method": "compressed-tensors",
                "config_groups": {"g": {"weights": {"num_bits": 8, "type": "float"}}},
            },
            quant.FP8_CHANNEL,
        ),
        ({"quant_method": "something-new"}, None),
    ],
)
def test_read_quant_of_published_formats(section, scheme):
    found = read(section)
    assert (found.linear, found.experts) == (scheme, scheme)


def test_read_quant_of_gpt_oss_quantizes_experts_only():
    found = read({"quant_method": "mxfp4", "modules_to_not_convert": ["model.layers.*.self_attn", "lm_head"]})
    assert (found.linear, found.experts) == (None, quant.MXFP4)


def test_read_quant_of_packed_experts_inside_fp8():
    found = read({"quant_method": "fp8", "weight_block_size": [128, 128]}, expert_dtype="fp4")
    assert (found.linear, found.experts) == (quant.FP8_BLOCK, quant.MXFP4)


def test_read_quant_of_a_modelopt_file_beside_the_config():
    extra = {"quantization": {"quant_algo": "NVFP4", "exclude_modules": ["lm_head"]}}
    found = quant.read_quant(cfg.make_config({}), extra, "", "auto")
    assert found.linear == quant.NVFP4
    assert quant.is_ignored(found, -1, "head")


def test_read_quant_online_applies_to_an_unquantized_checkpoint():
    found = quant.read_quant(cfg.make_config({}), {}, "fp8", "auto")
    assert found.linear == quant.FP8


def test_read_quant_online_is_ignored_for_a_quantized_checkpoint():
    assert read({"quant_method": "awq", "bits": 4, "group_size": 128}, wanted="fp8").method == "awq"


@pytest.mark.parametrize(
    ("stored", "wanted", "result"),
    [
        ("float32", "auto", ("fp16", 2)),
        ("bfloat16", "auto", ("bf16", 2)),
        ("", "auto", ("bf16", 2)),
        ("bfloat16", "half", ("fp16", 2)),
        ("bfloat16", "float32", ("fp32", 4)),
    ],
)
def test_choose_dtype(stored, wanted, result):
    assert quant.choose_dtype(cfg.make_config({"torch_dtype": stored}), wanted) == result


@pytest.mark.parametrize(
    ("pattern", "layer", "part", "ignored"),
    [
        ("lm_head", -1, "head", True),
        ("re:.*self_attn.*", 7, "attention", True),
        ("*self_attn*", 7, "attention", True),
        ("model.layers.0*", 0, "dense", True),
        ("model.layers.0*", 1, "dense", False),
        ("model.layers.3.self_attn.q_proj", 3, "attention", True),
        ("model.layers.3.self_attn.q_proj", 4, "attention", False),
        ("re:.*mlp\\.gate$", 2, "router", True),
        ("re:.*mlp\\.gate$", 2, "dense", False),
        ("model.layers.9.mlp.shared_experts", 9, "shared", True),
        ("model.layers.9.mlp.shared_experts", 9, "experts", False),
    ],
)
def test_is_ignored(pattern, layer, part, ignored):
    found = read({"quant_method": "fp8", "ignored_layers": [pattern]})
    assert quant.is_ignored(found, layer, part) is ignored


@pytest.mark.parametrize("pattern", ["(" * 190, "(a+)+$", "re:[", "*", "", "x" * 10_000])
def test_read_ignored_never_compiles_a_pattern(pattern):
    read({"quant_method": "fp8", "ignored_layers": [pattern, 3, None]})


@pytest.mark.parametrize(
    ("scheme", "weights", "scales"),
    [
        (quant.FP8_BLOCK, 256 * 512, 2 * 4 * 4),
        (quant.NVFP4, 256 * 512 // 2, 256 * 512 // 16),
        (quant.MXFP4, 256 * 512 // 2, 256 * 512 // 32),
        (quant.make_scheme(4, 128, zeros=True), 256 * 512 // 2, 256 * 4 * 2 + 256 * 4 // 2),
        (quant.FP8, 256 * 512, 4),
        (quant.FP8_CHANNEL, 256 * 512, 256 * 4),
    ],
)
def test_measure(scheme, weights, scales):
    assert quant.measure(scheme, 256, 512) == (weights, scales)


@settings(deadline=None)
@given(st.sampled_from(sorted(quant.ONLINE)), st.integers(0, 5000), st.integers(0, 5000), st.integers(1, 9))
def test_measure_is_linear_in_copies(name, rows, columns, copies):
    one = quant.measure(quant.ONLINE[name], rows, columns)
    many = quant.measure(quant.ONLINE[name], rows, columns, copies)
    assert many == (copies * one[0], copies * one[1])


@pytest.mark.parametrize(
    ("dtype", "bits"), [("fp4", 4), ("fp8_e4m3", 8), ("int8", 8), ("int4", 4), ("float6", 0), (None, 0)]
)
def test_read_quant_of_quark(dtype, bits):
    found = read({"quant_method": "quark", "global_quant_config": {"weight": {"dtype": dtype, "group_size": 32}}})
    assert (found.linear.bits if found.linear else 0) == bits
    assert quant.is_unknown(found) == (not bits)


@pytest.mark.parametrize("section", [{"quant_method": "hqq"}, {"quant_algo": "MIXED_PRECISION"}])
def test_is_unknown_tells_an_unknown_quantization_from_none(section):
    assert quant.is_unknown(read(section))
    assert not quant.is_unknown(read({}))

import contextlib
import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from doctor.errors import DoctorError
from doctor.memory.gguf import read_gguf
from doctor.memory.plan import plan_model
from doctor.memory.reading import read_files

from .helpers import H200, get_row


def pack_string(text):
    return struct.pack("<Q", len(text)) + text.encode()


def pack_value(value):
    if isinstance(value, str):
        return struct.pack("<I", 8) + pack_string(value)
    if isinstance(value, list):
        kind = 8 if value and isinstance(value[0], str) else 4
        body = b"".join(pack_string(v) if kind == 8 else struct.pack("<I", v) for v in value)
        return struct.pack("<IIQ", 9, kind, len(value)) + body
    return struct.pack("<II", 4, value)


def pack_gguf(metadata, tensors):
    head = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(metadata))
    values = b"".join(pack_string(key) + pack_value(value) for key, value in metadata.items())
    infos = b""
    for name, shape, kind in tensors:
        infos += pack_string(name) + struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape, kind, 0)
    return head + values + infos


METADATA = {
    "general.architecture": "llama",
    "llama.block_count": 2,
    "llama.embedding_length": 256,
    "llama.feed_forward_length": 512,
    "llama.attention.head_count": 4,
    "llama.attention.head_count_kv": [2, 2],
    "llama.context_length": 4096,
    "tokenizer.ggml.tokens": ["a", "b", "c"],
}
TENSORS = [
    ("blk.0.attn_q.weight", (256, 256), 12),
    ("token_embd.weight", (256, 3), 1),
    ("output_norm.weight", (256,), 0),
]


def test_read_gguf_sizes_each_type(tmp_path):
    path = tmp_path / "m.gguf"
    path.write_bytes(pack_gguf(METADATA, TENSORS))
    data, tensors, size = read_gguf(path)
    assert size == path.stat().st_size
    assert [(t.dtype, t.size) for t in tensors] == [("q4_k", 256 * 256 // 256 * 144), ("f16", 1536), ("f32", 1024)]
    assert tensors[1].shape == (3, 256)
    assert data["num_hidden_layers"] == 2
    assert data["num_key_value_heads"] == 2
    assert data["vocab_size"] == 3


def test_read_files_of_a_folder_with_only_a_gguf(tmp_path):
    (tmp_path / "m.gguf").write_bytes(pack_gguf(METADATA, TENSORS))
    files = read_files(tmp_path)
    assert files.headers.complete
    assert files.config.text["hidden_size"] == 256


def test_plan_of_a_gguf_file_takes_sizes_from_its_header(tmp_path):
    (tmp_path / "m.gguf").write_bytes(pack_gguf(METADATA, TENSORS))
    plan = plan_model(tmp_path / "m.gguf", {}, H200, "0.5.23")
    assert plan.bytes_per_token == 2 * 2 * 2 * 64 * 2
    # No output head in the file: the embedding serves as one.
    assert get_row(plan.weights, "head") == 0
    assert get_row(plan.weights, "embedding") == 1536


def test_read_gguf_of_latent_attention_names_its_widths(tmp_path):
    latent = {
        "general.architecture": "deepseek2",
        "deepseek2.attention.kv_lora_rank": 512,
        "deepseek2.attention.key_length": 576,
        "deepseek2.attention.key_length_mla": 192,
        "deepseek2.attention.value_length_mla": 128,
        "deepseek2.rope.dimension_count": 64,
        "deepseek2.expert_count": 64,
    }
    path = tmp_path / "m.gguf"
    path.write_bytes(pack_gguf(latent, []))
    data, _, _ = read_gguf(path)
    assert (data["model_type"], data["qk_nope_head_dim"], data["v_head_dim"]) == ("deepseek_v3", 128, 128)
    assert data["n_routed_experts"] == 64


def test_read_gguf_of_ordinary_heads_drops_the_rotary_width(tmp_path):
    path = tmp_path / "m.gguf"
    path.write_bytes(pack_gguf({**METADATA, "llama.rope.dimension_count": 64}, []))
    assert "qk_rope_head_dim" not in read_gguf(path)[0]


@pytest.mark.parametrize("raw", [b"", b"GGUF", b"GGML" + b"\0" * 60, b"GGUF" + struct.pack("<IQQ", 3, 1 << 50, 1)])
def test_read_gguf_of_no_gguf_is_an_error(tmp_path, raw):
    path = tmp_path / "m.gguf"
    path.write_bytes(raw)
    with pytest.raises(DoctorError, match="GGUF header"):
        read_gguf(path)


def test_read_gguf_with_an_endless_array_is_an_error(tmp_path):
    path = tmp_path / "m.gguf"
    path.write_bytes(b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + pack_string("k") + struct.pack("<IIQ", 9, 8, 1 << 62))
    with pytest.raises(DoctorError, match="array"):
        read_gguf(path)


@settings(deadline=None)
@given(st.binary(max_size=200))
def test_read_gguf_of_any_bytes_returns_or_raises_doctor_error(tmp_path_factory, raw):
    path = tmp_path_factory.getbasetemp() / "any.gguf"
    path.write_bytes(b"GGUF" + struct.pack("<IQQ", 3, 1, 1) + raw)
    with contextlib.suppress(DoctorError):
        read_gguf(path)

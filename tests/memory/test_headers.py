import contextlib
import json
import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from doctor.errors import DoctorError
from doctor.memory import headers

from .helpers import list_llama_tensors, pack_header, write_safetensors

ONE = [("a.weight", "BF16", (4, 8), 64)]


def test_read_headers_of_one_file(tmp_path):
    write_safetensors(tmp_path / "model.safetensors", ONE)
    found = headers.read_headers(tmp_path)
    assert found.complete
    assert found.notes == ()
    assert found.tensors[0] == ("a.weight", "bf16", (4, 8), 64)


def test_read_headers_of_an_empty_folder_is_nothing(tmp_path):
    assert headers.read_headers(tmp_path) == headers.NOTHING


def test_read_headers_names_missing_shards_and_reads_the_others(tmp_path):
    write_safetensors(tmp_path / "model-00001-of-00002.safetensors", ONE)
    index = {"weight_map": {"a.weight": "model-00001-of-00002.safetensors", "b": "model-00002-of-00002.safetensors"}}
    (tmp_path / headers.INDEX).write_text(json.dumps(index))
    found = headers.read_headers(tmp_path)
    assert not found.complete
    assert len(found.tensors) == 1
    assert "1 of 2 weight files" in found.notes[0]
    assert "model-00002-of-00002.safetensors" in found.notes[0]


def test_read_headers_skips_files_the_index_does_not_name(tmp_path):
    write_safetensors(tmp_path / "model.safetensors", ONE)
    write_safetensors(tmp_path / "other.safetensors", [("b", "F32", (1,), 4)])
    (tmp_path / headers.INDEX).write_text(json.dumps({"weight_map": {"a.weight": "model.safetensors"}}))
    assert [tensor.name for tensor in headers.read_headers(tmp_path).tensors] == ["a.weight"]


def test_read_headers_without_index_skips_other_loaders_files(tmp_path):
    write_safetensors(tmp_path / "model.safetensors", ONE)
    write_safetensors(tmp_path / "consolidated.safetensors", [("b", "F32", (1,), 4)])
    assert len(headers.read_headers(tmp_path).tensors) == 1


@pytest.mark.parametrize("name", ["../outside.safetensors", "/etc/passwd", "sub/model.safetensors"])
def test_list_shards_never_leaves_the_folder(tmp_path, name):
    assert headers.list_shards(tmp_path, {"a": name}) == []


def test_read_headers_with_a_broken_index_reads_the_files(tmp_path):
    write_safetensors(tmp_path / "model.safetensors", ONE)
    (tmp_path / headers.INDEX).write_text("{")
    found = headers.read_headers(tmp_path)
    assert len(found.tensors) == 1
    assert "not JSON" in found.notes[0]


def test_read_header_of_a_cut_file_says_so(tmp_path):
    write_safetensors(tmp_path / "model.safetensors", ONE, cut=10)
    found = headers.read_headers(tmp_path)
    assert not found.complete
    assert "download is incomplete" in found.notes[0]


def test_read_header_cut_inside_the_header_says_so(tmp_path):
    raw, _ = pack_header(ONE)
    (tmp_path / "m.safetensors").write_bytes(raw[:20])
    with pytest.raises(DoctorError, match="cut inside its header"):
        headers.read_header(tmp_path / "m.safetensors")


def test_read_header_of_a_git_lfs_pointer_says_so(tmp_path):
    (tmp_path / "m.safetensors").write_text("version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n")
    with pytest.raises(DoctorError, match="Git LFS pointer"):
        headers.read_header(tmp_path / "m.safetensors")


@pytest.mark.parametrize("raw", [b"", b"abc", struct.pack("<Q", 1 << 60), struct.pack("<Q", 4) + b"{{{{"])
def test_read_header_of_no_safetensors_file_is_an_error(tmp_path, raw):
    path = tmp_path / "m.safetensors"
    path.write_bytes(raw)
    with pytest.raises(DoctorError):
        headers.read_header(path)


@settings(deadline=None)
@given(st.binary(max_size=300))
def test_read_header_of_any_bytes_returns_or_raises_doctor_error(tmp_path_factory, raw):
    path = tmp_path_factory.getbasetemp() / "any.safetensors"
    path.write_bytes(struct.pack("<Q", len(raw)) + raw)
    with contextlib.suppress(DoctorError):
        headers.read_header(path)


@pytest.mark.parametrize(
    "entry", [{}, {"shape": "x", "data_offsets": [3]}, {"shape": [-1, None], "data_offsets": [9, 2]}]
)
def test_parse_entry_of_malformed_entries_counts_nothing(entry):
    tensor, _ = headers.parse_entry("a", entry)
    assert tensor.size == 0


def test_llama_tensors_of_the_helpers_are_consistent():
    assert all(size > 0 for *_, size in list_llama_tensors())

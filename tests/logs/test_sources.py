"""What the user may name: every kind of file, and a clear word for what cannot be read."""

import gzip
import io
import os
import random
import sys
import threading

import hypothesis.strategies as st
import pytest
import zstandard
from hypothesis import given, settings

from doctor.errors import DoctorError
from doctor.logs.sources import CHUNK, find_sources, guess_utf16, is_binary, looks_like_log

TEXT = "[2026-04-24 06:29:19 TP0] Load weight begin. avail mem=78.53 GB ✓ 显存\n" * 50
DATA = TEXT.encode()


def read(*arguments: str) -> bytes:
    return b"".join(chunk for source in find_sources(list(arguments)) for chunk in source.open())


def save(path, data: bytes) -> str:
    path.write_bytes(data)
    return str(path)


def explain_failure(*arguments: str) -> str:
    with pytest.raises(DoctorError) as caught:
        read(*arguments)
    assert caught.value.hint
    return caught.value.message


ENCODINGS = {
    "plain": DATA,
    "UTF-8 with a mark": b"\xef\xbb\xbf" + DATA,
    "UTF-16 LE with a mark": b"\xff\xfe" + TEXT.encode("utf-16-le"),
    "UTF-16 BE with a mark": b"\xfe\xff" + TEXT.encode("utf-16-be"),
    "UTF-16 LE": TEXT.encode("utf-16-le"),
    "UTF-16 BE": TEXT.encode("utf-16-be"),
    "gzip": gzip.compress(DATA),
    "gzip in two members": gzip.compress(DATA[:100]) + gzip.compress(DATA[100:]),
    "gzip with zeros after it": gzip.compress(DATA) + b"\0" * 512,
    "gzip of UTF-16": gzip.compress(b"\xff\xfe" + TEXT.encode("utf-16-le")),
    "zstd": zstandard.compress(DATA),
    "zstd in two frames": zstandard.compress(DATA[:100]) + zstandard.compress(DATA[100:]),
    "zstd of unknown size": zstandard.ZstdCompressor(write_content_size=False).compress(DATA),
}


@pytest.mark.parametrize("data", ENCODINGS.values(), ids=ENCODINGS)
def test_text_is_read_whatever_its_wrapping(data: bytes, tmp_path) -> None:
    assert read(save(tmp_path / "server.log", data)) == DATA


@pytest.mark.parametrize("data", ENCODINGS.values(), ids=ENCODINGS)
def test_standard_input_is_read_whatever_its_wrapping(data: bytes, monkeypatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
    assert read() == read_again(data, monkeypatch) == DATA


def read_again(data: bytes, monkeypatch) -> bytes:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
    return read("-")


@pytest.mark.parametrize("data", ENCODINGS.values(), ids=ENCODINGS)
def test_fifo_that_brings_bytes_one_by_one_is_read(data: bytes, tmp_path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)

    def write() -> None:
        with path.open("wb", buffering=0) as stream:
            for at in range(20):
                stream.write(data[at : at + 1])
            stream.write(data[20:])

    writer = threading.Thread(target=write)
    writer.start()
    assert read(str(path)) == DATA
    writer.join()


def test_fifo_has_no_size(tmp_path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (source,) = find_sources([str(tmp_path / "pipe")])
    assert source.size is None


def test_invalid_utf_8_passes_through(tmp_path) -> None:
    assert read(save(tmp_path / "a.log", b"caf\xe9 \xff\xff ok\n")) == b"caf\xe9 \xff\xff ok\n"


def test_utf_16_cut_in_the_middle_of_a_character_ends_in_a_mark(tmp_path) -> None:
    assert read(save(tmp_path / "a.log", b"\xff\xfe" + TEXT.encode("utf-16-le") + b"x")).decode().endswith("\n\ufffd")


def test_several_files_come_in_the_order_given(tmp_path) -> None:
    names = [save(tmp_path / name, name.encode()) for name in ("b.log", "a.log")]
    assert [source.name for source in find_sources(names)] == names


def test_empty_file_gives_nothing(tmp_path) -> None:
    assert read(save(tmp_path / "empty.log", b"")) == b""


def test_file_of_proc_without_a_size_is_read() -> None:
    assert b"Name:" in read("/proc/self/status")


def test_nuls_before_the_text_of_a_truncated_log_are_no_binary(tmp_path) -> None:
    assert read(save(tmp_path / "a.log", b"\0" * 100_000 + DATA)).endswith(DATA)


def test_file_that_shrinks_while_it_is_read_ends_there(tmp_path) -> None:
    path = tmp_path / "a.log"
    path.write_bytes(DATA * 1000)
    (source,) = find_sources([str(path)])
    chunks = source.open()
    first = next(chunks)
    os.truncate(path, 10)
    assert first + b"".join(chunks) == (DATA * 1000)[: len(first)]


# folders


def test_folder_gives_its_logs_in_order_of_time(tmp_path) -> None:
    for age, name in enumerate(["b.log", "a.txt", "server.log.1", "c.out", "d.gz", "notes.md"]):
        save(tmp_path / name, b"x")
        os.utime(tmp_path / name, (1000 + age, 1000 + age))
    save(tmp_path / "model.safetensors", b"x")
    (tmp_path / "folder.log").mkdir()
    os.mkfifo(tmp_path / "pipe.log")
    (tmp_path / "dangling.log").symlink_to("nothing")
    (tmp_path / "loop.log").symlink_to("loop.log")
    names = [os.path.basename(source.name) for source in find_sources([str(tmp_path)])]
    assert names == ["b.log", "a.txt", "server.log.1", "c.out", "d.gz", "notes.md"]


def test_files_of_a_folder_are_not_named_by_the_user(tmp_path) -> None:
    save(tmp_path / "a.log", b"x")
    assert [source.named for source in find_sources([str(tmp_path), str(tmp_path / "a.log")])] == [False, True]


def test_folder_of_many_files_is_listed(tmp_path) -> None:
    for number in range(3000):
        os.close(os.open(tmp_path / f"{number}.log", os.O_CREAT | os.O_WRONLY))
    assert len(find_sources([str(tmp_path)])) == 3000


def test_folder_without_logs(tmp_path) -> None:
    save(tmp_path / "model.safetensors", b"x")
    assert explain_failure(str(tmp_path)) == f"{tmp_path}: no log files in this folder"


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("server.log", True),
        ("server.log.12", True),
        ("x.log.gz", True),
        ("x.1", False),
        ("x.json", False),
        ("log", False),
    ],
)
def test_looks_like_log(name: str, expected: bool) -> None:
    assert looks_like_log(name) is expected


# what cannot be read


def test_missing_file(tmp_path) -> None:
    assert explain_failure(f"{tmp_path}/none.log") == f"{tmp_path}/none.log: no such file"


def test_dangling_link_says_where_it_points(tmp_path) -> None:
    (tmp_path / "a.log").symlink_to("/nowhere/server.log")
    assert (
        explain_failure(f"{tmp_path}/a.log") == f"{tmp_path}/a.log: no such file, it is a link to /nowhere/server.log"
    )


def test_unreadable_file(tmp_path, monkeypatch) -> None:
    path = save(tmp_path / "a.log", b"x")
    monkeypatch.setattr(os, "access", lambda *_: False)  # root may read everything
    assert explain_failure(path) == f"{path}: permission denied"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_unreadable_folder(tmp_path) -> None:
    tmp_path.chmod(0)
    assert "ermission denied" in explain_failure(str(tmp_path))


def test_file_that_vanishes_before_it_is_opened(tmp_path) -> None:
    path = tmp_path / "a.log"
    path.write_bytes(b"x")
    (source,) = find_sources([str(path)])
    path.unlink()
    with pytest.raises(DoctorError, match="No such file"):
        list(source.open())


def test_file_whose_reading_fails() -> None:
    assert explain_failure("/proc/self/mem") == "/proc/self/mem: Input/output error"


def test_closed_standard_input(monkeypatch) -> None:
    monkeypatch.setattr(sys, "stdin", None)
    assert explain_failure("-") == "standard input is closed"


BINARIES = {
    "program": b"\x7fELF\x02\x01\x01" + bytes(100),
    "archive": b"PK\x03\x04" + b"text" * 100,
    "picture": b"\x89PNG\r\n\x1a\n" + bytes(100),
    "xz": b"\xfd7zXZ\0" + b"text" * 100,
    "numbers": b"".join(number.to_bytes(4, "little") for number in range(2000)),
    "bytes of every value": bytes(number * 167 % 256 for number in range(8192)),
}


@pytest.mark.parametrize("data", BINARIES.values(), ids=BINARIES)
def test_binary_file_is_refused(data: bytes, tmp_path) -> None:
    path = save(tmp_path / "a.log", data)
    assert explain_failure(path) == f"{path}: this is a binary file, not a log"


@pytest.mark.parametrize("seed", range(30))
def test_random_bytes_are_binary(seed: int) -> None:
    data = random.Random(seed).randbytes(8192)  # noqa: S311 - no cryptography
    assert is_binary(data)
    assert guess_utf16(data) is None


@pytest.mark.parametrize(
    "data",
    [
        DATA,
        b"\x1b[1;33mcolour\x1b[0m\r\n" * 50,
        "显存不足\n".encode("gbk") * 50,
        b"\0" * 5000,
        b"",
        b"caf\xe9\n" * 10,
        b"\x07\x08bell\n",
    ],
)
def test_is_binary_near_miss(data: bytes) -> None:
    assert not is_binary(data)


@pytest.mark.parametrize("cut", [1, 7, 12, 40])
@pytest.mark.parametrize("wrap", [gzip.compress, zstandard.compress], ids=["gzip", "zstd"])
def test_compressed_file_that_ends_too_early(wrap, cut: int, tmp_path) -> None:
    data = wrap(DATA)
    path = save(tmp_path / "a.log", data[:-cut])
    assert explain_failure(path).startswith(f"{path}: broken {'gzip' if wrap is gzip.compress else 'zstd'} data (")


@pytest.mark.parametrize("wrap", [gzip.compress, zstandard.compress], ids=["gzip", "zstd"])
def test_compressed_file_with_garbage_after_its_magic(wrap, tmp_path) -> None:
    data = bytearray(wrap(DATA))
    data[6:] = b"\xff" * (len(data) - 6)
    path = save(tmp_path / "a.log", bytes(data))
    assert "broken" in explain_failure(path)


def test_second_member_that_is_broken(tmp_path) -> None:
    path = save(tmp_path / "a.gz", gzip.compress(DATA) + gzip.compress(DATA)[:-9])
    assert "it ends too early" in explain_failure(path)


def test_zstd_window_above_what_may_be_held(tmp_path) -> None:
    parameters = zstandard.ZstdCompressionParameters.from_level(3, window_log=27)
    packer = zstandard.ZstdCompressor(compression_params=parameters).compressobj()
    path = save(tmp_path / "a.zst", packer.compress(DATA) + packer.flush())
    with pytest.raises(DoctorError, match="broken zstd data") as caught:
        read(path)
    assert "zstd -dc --long=31" in str(caught.value.hint)


@pytest.mark.parametrize("wrap", [gzip.compress, zstandard.compress], ids=["gzip", "zstd"])
def test_bomb_comes_in_bounded_chunks(wrap, tmp_path) -> None:
    path = save(tmp_path / "a.log", wrap(b"\n" * 30_000_000))
    (source,) = find_sources([path])
    sizes = [len(chunk) for chunk in source.open()]
    assert sum(sizes) == 30_000_000
    assert max(sizes) <= CHUNK


@settings(max_examples=100, deadline=None)
@given(
    data=st.binary(max_size=400),
    magic=st.sampled_from(
        [
            b"",
            b"\x1f\x8b\x08\0",
            b"\x28\xb5\x2f\xfd",
            b"\xff\xfe",
            b"\xfe\xff",
            gzip.compress(b"x"),
            zstandard.compress(b"x"),
        ]
    ),
)
def test_any_bytes_are_read_or_refused(data: bytes, magic: bytes, tmp_path_factory) -> None:
    path = tmp_path_factory.getbasetemp() / "any.log"
    path.write_bytes(magic + data)
    messages = []
    try:
        read(str(path))
    except DoctorError as error:
        messages.append(error.message)
    assert all(str(path) in message for message in messages)

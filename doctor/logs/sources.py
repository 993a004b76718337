"""Open what the user named: plain, compressed, standard input, a folder, a FIFO; and say clearly when it cannot be read."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from typing import IO, NamedTuple

from doctor.errors import DoctorError

CHUNK = 256 * 1024
"""Bytes per read: larger buffers fall out of the L2 cache and halve the speed (measured for 64 kB to 4 MB)."""

_LOG_NAMES = (".log", ".txt", ".out", ".err", ".md", ".gz", ".zst")


class Source(NamedTuple):
    """One input: the name to show, how to read it, its size in bytes on disk (None for pipes)."""

    name: str
    open: Callable[[], Iterator[bytes]]
    size: int | None


def find_sources(arguments: list[str]) -> list[Source]:
    """Turn FILE arguments into sources; "-" or nothing is standard input, a folder its logs in order of time.

    Raises DoctorError for what is missing, unreadable, or a folder without logs.
    """
    if not arguments:
        return [_standard_input()]
    return [source for argument in arguments for source in _find_source(argument)]


def _find_source(argument: str) -> list[Source]:
    if argument == "-":
        return [_standard_input()]
    if os.path.isdir(argument):
        return _list_folder(argument)
    try:
        size = os.stat(argument).st_size if os.path.isfile(argument) else None
    except OSError as error:
        raise _unreadable(argument, error) from error
    if not os.path.exists(argument):
        raise DoctorError(
            f"{argument}: no such file",
            "check the path, or pipe the log in: some-command 2>&1 | doctor explain -",
        )
    if not os.access(argument, os.R_OK):
        raise DoctorError(f"{argument}: permission denied", f"make it readable, for example: sudo chmod a+r {argument}")
    return [Source(argument, lambda: _read_file(argument), size)]


def _list_folder(folder: str) -> list[Source]:
    try:
        paths = [entry.path for entry in os.scandir(folder) if entry.is_file() and _looks_like_log(entry.name)]
        paths.sort(key=lambda path: (os.stat(path).st_mtime, path))
    except OSError as error:
        raise _unreadable(folder, error) from error
    if not paths:
        raise DoctorError(
            f"{folder}: no log files in this folder",
            f"name the file itself (looked for {', '.join(_LOG_NAMES)})",
        )
    return [source for path in paths for source in _find_source(path)]


def _looks_like_log(name: str) -> bool:
    stem, _, suffix = name.rpartition(".")
    return name.endswith(_LOG_NAMES) or (suffix.isdigit() and stem.endswith(_LOG_NAMES))


def _unreadable(path: str, error: OSError) -> DoctorError:
    return DoctorError(f"{path}: {error.strerror or error}", "check that the file exists and may be read")


def _standard_input() -> Source:
    def read() -> Iterator[bytes]:
        if sys.stdin.isatty():
            print("reading a log from standard input; paste it, then press Ctrl-D", file=sys.stderr)
        yield from _decode(_read_chunks(sys.stdin.buffer), "standard input")

    return Source("-", read, None)


def _read_file(path: str) -> Iterator[bytes]:
    try:
        with open(path, "rb", buffering=0) as stream:
            head = stream.read(4) if os.path.isfile(path) else b""
            if head[:2] == b"\x1f\x8b":
                yield from _decode(_read_gzip(path), path)
            elif head == b"\x28\xb5\x2f\xfd":
                yield from _decode(_read_zstd(path), path)
            else:
                yield from _decode(_read_chunks(stream, head), path)
    except (OSError, EOFError) as error:
        raise DoctorError(f"{path}: {error}", "check that the file is whole and may be read") from error


def _read_chunks(stream: IO[bytes], head: bytes = b"") -> Iterator[bytes]:
    if head:
        yield head
    read = getattr(stream, "read1", stream.read)
    while chunk := read(CHUNK):
        yield chunk


def _read_gzip(path: str) -> Iterator[bytes]:
    import gzip
    import zlib

    try:
        with gzip.open(path, "rb") as stream:
            yield from _read_chunks(stream)  # type: ignore[arg-type]
    except zlib.error as error:
        raise DoctorError(
            f"{path}: broken gzip data ({error})", "compress the log again, or pass it uncompressed"
        ) from error


def _read_zstd(path: str) -> Iterator[bytes]:
    """Read with the standard library (3.14), else the `zstandard` package; neither is a base dependency."""
    if sys.version_info >= (3, 14):
        from compression import zstd

        opener: Callable[[str], IO[bytes]] = zstd.open
        broken: type[Exception] = zstd.ZstdError
    else:
        try:
            import zstandard
        except ImportError:
            raise DoctorError(
                f"{path}: reading .zst needs the zstandard package",
                "pip install 'sglang-doctor[zstd]', or: zstd -dc FILE | doctor explain -",
            ) from None
        opener, broken = zstandard.open, zstandard.ZstdError
    try:
        with opener(path) as stream:
            yield from _read_chunks(stream)
    except broken as error:
        raise DoctorError(
            f"{path}: broken zstd data ({error})", "compress the log again, or pass it uncompressed"
        ) from error


def _decode(chunks: Iterator[bytes], name: str) -> Iterator[bytes]:
    """Pass UTF-8 (valid or not) through; turn UTF-16 into UTF-8; refuse what is no text."""
    import itertools

    first = next(chunks, b"")
    while first and len(first) < 8 and (more := next(chunks, b"")):
        first += more
    encoding = _guess_utf16(first)
    chunks = itertools.chain([first], chunks)
    if encoding:
        yield from _recode(chunks, encoding)
        return
    if _is_binary(first):
        raise DoctorError(
            f"{name}: this is a binary file, not a log",
            "pass the server's output, for example: sglang serve … 2>&1 | tee server.log",
        )
    yield first.removeprefix(b"\xef\xbb\xbf")
    next(chunks)
    yield from chunks


def _guess_utf16(head: bytes) -> str | None:
    if head.startswith((b"\xff\xfe", b"\xfe\xff")):
        return "utf-16"
    sample = head[:4096]
    half = len(sample) // 2
    if half >= 8 and sample[1::2].count(0) > half * 0.9 and sample[::2].count(0) < half * 0.1:
        return "utf-16-le"
    if half >= 8 and sample[::2].count(0) > half * 0.9 and sample[1::2].count(0) < half * 0.1:
        return "utf-16-be"
    return None


def _recode(chunks: Iterator[bytes], encoding: str) -> Iterator[bytes]:
    import codecs

    decoder = codecs.getincrementaldecoder(encoding)("replace")
    for chunk in chunks:
        yield decoder.decode(chunk).encode("utf-8", "replace")
    yield decoder.decode(b"", final=True).encode("utf-8", "replace")


def _is_binary(head: bytes) -> bool:
    """True when over a tenth of the first 8 kB are control bytes that no terminal log holds (NUL runs of truncated logs aside)."""
    sample = head[:8192].replace(b"\0", b"")
    if not sample:
        return False
    controls = sum(sample.count(bytes([code])) for code in range(32) if code not in (7, 8, 9, 10, 11, 12, 13, 27))
    return controls > len(sample) * 0.1 or head.startswith((b"\x7fELF", b"PK\x03\x04", b"\x89PNG"))

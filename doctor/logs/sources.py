"""Open what the user named: plain or compressed, file, folder, pipe; and say clearly when it cannot be read."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from typing import IO, NamedTuple, Protocol

from doctor.errors import DoctorError

CHUNK = 256 * 1024
"""Bytes per read: larger buffers fall out of the L2 cache and halve the speed (measured for 64 kB to 4 MB)."""

_LOG_NAMES = (".log", ".txt", ".out", ".err", ".md", ".gz", ".zst")


class Source(NamedTuple):
    """One input: the name to show, how to read it, its size in bytes on disk (None for pipes).

    `named`: the user named it; a file of a folder is skipped with a notice when it cannot be read.
    """

    name: str
    open: Callable[[], Iterator[bytes]]
    size: int | None
    named: bool = True


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
    if not os.path.exists(argument):
        where = f", it is a link to {os.readlink(argument)}" if os.path.islink(argument) else ""
        raise DoctorError(
            f"{argument}: no such file{where}",
            "check the path, or pipe the log in: some-command 2>&1 | doctor explain -",
        )
    if not os.access(argument, os.R_OK):
        raise DoctorError(f"{argument}: permission denied", f"make it readable, for example: sudo chmod a+r {argument}")
    size = os.path.getsize(argument) if os.path.isfile(argument) else None
    return [Source(argument, lambda: _read_file(argument), size)]


def _list_folder(folder: str) -> list[Source]:
    try:
        found = [stamped for entry in os.scandir(folder) if (stamped := _look_at(entry))]
    except OSError as error:
        raise DoctorError(f"{folder}: {error.strerror or error}", "check that it may be read") from error
    if not found:
        raise DoctorError(
            f"{folder}: no log files in this folder",
            f"name the file itself (looked for {', '.join(_LOG_NAMES)})",
        )
    return [
        Source(path, lambda path=path: _read_file(path), size, named=False)  # type: ignore[misc]
        for _, path, size in sorted(found)
    ]


def _look_at(entry: os.DirEntry[str]) -> tuple[float, str, int] | None:
    """Give (time, path, size) of a file that looks like a log; None for everything else, dangling links included."""
    try:
        if not looks_like_log(entry.name) or not entry.is_file():
            return None
        status = entry.stat()
    except OSError:
        return None
    return status.st_mtime, entry.path, status.st_size


def looks_like_log(name: str) -> bool:
    """True for a log's name, rotated ones (`server.log.1`) included."""
    stem, _, suffix = name.rpartition(".")
    return name.endswith(_LOG_NAMES) or (suffix.isdigit() and stem.endswith(_LOG_NAMES))


def _standard_input() -> Source:
    def read() -> Iterator[bytes]:
        if sys.stdin is None:
            raise DoctorError("standard input is closed", "give a file: doctor explain server.log")
        if sys.stdin.isatty():
            print("reading a log from standard input; paste it, then press Ctrl-D", file=sys.stderr)
        yield from _read_stream(sys.stdin.buffer, "standard input")

    return Source("-", read, None)


def _read_file(path: str) -> Iterator[bytes]:
    try:
        stream = open(path, "rb", buffering=0)  # noqa: SIM115 - closed below, outside this clause
    except OSError as error:
        raise DoctorError(f"{path}: {error.strerror or error}", "check that it exists and may be read") from error
    with stream:
        yield from _read_stream(stream, path)


def _read_stream(stream: IO[bytes], name: str) -> Iterator[bytes]:
    chunks = _read_chunks(stream, name)
    head = _gather(chunks)
    packing = next((packing for packing in _PACKINGS if head.startswith(packing.magic)), None)
    if packing:
        chunks = _inflate(_chain(head, chunks), name, packing)
        head = _gather(chunks)
    yield from _decode(head, chunks, name)


def _read_chunks(stream: IO[bytes], name: str) -> Iterator[bytes]:
    read = getattr(stream, "read1", stream.read)
    try:
        while chunk := read(CHUNK):
            yield chunk
    except OSError as error:
        raise DoctorError(f"{name}: {error.strerror or error}", "check that it is a file and may be read") from error


_ENOUGH = 64


def _gather(chunks: Iterator[bytes]) -> bytes:
    """Take the first bytes, enough to tell what they are: a slow pipe may bring them one by one."""
    head = b""
    while len(head) < _ENOUGH and (more := next(chunks, b"")):
        head += more
    return head


def _chain(head: bytes, chunks: Iterator[bytes]) -> Iterator[bytes]:
    yield head
    yield from chunks


class _Inflater(Protocol):
    @property
    def eof(self) -> bool: ...
    @property
    def unused_data(self) -> bytes: ...
    def decompress(self, data: bytes, /) -> bytes: ...


class _Packing(NamedTuple):
    """A compression: its magic, how to begin, and bytes fed at once, so that a bomb makes 8 MB at most at a time."""

    name: str
    magic: bytes
    begin: Callable[[str], tuple[_Inflater, type[Exception]]]
    step: int


def _begin_gzip(_: str) -> tuple[_Inflater, type[Exception]]:
    import zlib

    return zlib.decompressobj(31), zlib.error


_WIDEST_WINDOW = 25
"""Log2 of the window that may be held, 32 MB: zstd up to level 20 needs no more."""


def _begin_zstd(name: str) -> tuple[_Inflater, type[Exception]]:
    """Use the standard library (3.14), else the `zstandard` package; neither is a base dependency."""
    if sys.version_info >= (3, 14):
        from compression import zstd

        widest = {zstd.DecompressionParameter.window_log_max: _WIDEST_WINDOW}
        return zstd.ZstdDecompressor(options=widest), zstd.ZstdError
    try:
        import zstandard
    except ImportError:
        raise DoctorError(
            f"{name}: reading .zst needs the zstandard package",
            "pip install 'sglang-doctor[zstd]', or: zstd -dc FILE | doctor explain -",
        ) from None
    return zstandard.ZstdDecompressor(max_window_size=1 << _WIDEST_WINDOW).decompressobj(), zstandard.ZstdError


_PACKINGS = (
    _Packing("gzip", b"\x1f\x8b", _begin_gzip, 8192),
    _Packing("zstd", b"\x28\xb5\x2f\xfd", _begin_zstd, 256),
)


def _inflate(chunks: Iterator[bytes], name: str, packing: _Packing) -> Iterator[bytes]:
    """Decompress members or frames one after another; what follows them and is none is ignored, as gzip does."""
    inflater, broken = packing.begin(name)
    pieces = (chunk[at : at + packing.step] for chunk in chunks for at in range(0, len(chunk), packing.step))
    texts: list[bytes] = []
    try:
        for piece in pieces:
            rest = piece
            while rest:
                if inflater.eof:
                    rest += next(pieces, b"") if len(rest) < len(packing.magic) else b""
                    if not rest.startswith(packing.magic):
                        yield from _slice(texts)
                        return
                    inflater, broken = packing.begin(name)
                texts.append(inflater.decompress(rest))
                rest = inflater.unused_data
            if sum(map(len, texts)) >= CHUNK:
                yield from _slice(texts)
                texts = []
    except broken as error:
        raise _broken(name, packing, str(error)) from error
    yield from _slice(texts)
    if not inflater.eof:
        raise _broken(name, packing, "it ends too early")


def _slice(texts: list[bytes]) -> Iterator[bytes]:
    text = b"".join(texts)
    yield from (text[at : at + CHUNK] for at in range(0, len(text), CHUNK))


def _broken(name: str, packing: _Packing, reason: str) -> DoctorError:
    tool = "zstd -dc --long=31" if packing.name == "zstd" else "gzip -dc"
    return DoctorError(
        f"{name}: broken {packing.name} data ({reason})", f"compress it again, or: {tool} FILE | doctor explain -"
    )


def _decode(head: bytes, chunks: Iterator[bytes], name: str) -> Iterator[bytes]:
    """Pass UTF-8 (valid or not) through; turn UTF-16 into UTF-8; refuse what is no text."""
    encoding = guess_utf16(head)
    if encoding:
        yield from _recode(_chain(head, chunks), encoding)
        return
    if is_binary(head):
        raise DoctorError(
            f"{name}: this is a binary file, not a log",
            "unpack an archive first, or pass the server's output: sglang serve … 2>&1 | tee server.log",
        )
    yield head.removeprefix(b"\xef\xbb\xbf")
    yield from chunks


def guess_utf16(head: bytes) -> str | None:
    """Name the kind of UTF-16 by its mark, or by NULs in every other place; None for anything else."""
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


_MAGICS = (b"\x7fELF", b"PK\x03\x04", b"\x89PNG", b"\xff\xd8\xff", b"\xfd7zXZ", b"BZh", b"7z\xbc\xaf", b"%PDF")
_TEXT_CONTROLS = (7, 8, 9, 10, 11, 12, 13, 27)


def is_binary(head: bytes) -> bool:
    """True when the first 8 kB hold more than 3 % control bytes that no terminal prints; NULs of cut logs aside.

    Random bytes hold 9 %, real logs none.
    """
    if head.startswith(_MAGICS):
        return True
    sample = head[:8192].replace(b"\0", b"")
    return sum(sample.count(code) for code in range(32) if code not in _TEXT_CONTROLS) > len(sample) * 0.03

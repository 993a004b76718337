"""The headers of a checkpoint's safetensors files: names, dtypes, shapes and bytes, never the weights."""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from doctor.errors import DoctorError
from doctor.memory import config as cfg
from doctor.memory.shapes import Tensor
from doctor.memory.units import format_size

MAX_HEADER_BYTES = 64 << 20  # safetensors itself refuses headers above 100 MB; real ones stay below 20 MB
MAX_TENSORS = 2_000_000
MAX_FILES = 4096
INDEX = "model.safetensors.index.json"
# Files of other loaders that SGLang skips as well (0.5.23, model_loader/weight_utils.py filters).
OTHER_LOADERS = ("consolidated", "training_args", "optimizer", "scheduler", "adapter_model")


class Headers(NamedTuple):
    """What the headers say: the tensors, the bytes of all weight files, whether all files were there."""

    tensors: tuple[Tensor, ...]
    file_bytes: int
    complete: bool
    notes: tuple[str, ...]


NOTHING = Headers((), 0, complete=False, notes=())


def read_headers(folder: Path) -> Headers:
    """Read the header of every safetensors file that SGLang would load from `folder`.

    Missing, cut or unreadable files are notes, not errors; `complete` is False then.
    """
    index, notes = read_index(folder)
    names = list_shards(folder, index)
    if not names:
        return NOTHING._replace(notes=tuple(notes))
    missing = [name for name in names if not (folder / name).is_file()]
    if missing:
        notes.append(describe_missing(missing, len(names)))
    tensors, size, faults = read_shards(folder, [name for name in names if name not in set(missing)])
    complete = not missing and not faults
    return Headers(tuple(tensors), size, complete, (*notes, *faults))


def read_index(folder: Path) -> tuple[Mapping[str, object], list[str]]:
    """Return the index's weight map (empty when there is none) and what is wrong with it."""
    path = folder / INDEX
    if not path.is_file():
        return {}, []
    try:
        return cfg.get_map(cfg.read_json(path), "weight_map"), []
    except DoctorError as error:
        return {}, [error.message]


def list_shards(folder: Path, index: Mapping[str, object]) -> list[str]:
    """Return the file names the index names, or all safetensors files when there is no index.

    A name with a path separator could point outside the folder, so it is not followed.
    """
    if index:
        named = {name for name in index.values() if isinstance(name, str) and Path(name).name == name}
        return sorted(named)[:MAX_FILES]
    found = islice(folder.glob("*.safetensors"), MAX_FILES)
    return sorted(path.name for path in found if not path.name.startswith(OTHER_LOADERS))


def describe_missing(missing: list[str], total: int) -> str:
    """Return the sentence about shards that the index names and the folder lacks."""
    some = ", ".join(missing[:3]) + (", …" if len(missing) > 3 else "")
    return (
        f"{len(missing)} of {total} weight files named by {INDEX} are missing ({some}): "
        "the download is incomplete and SGLang will refuse to load it"
    )


def read_shards(folder: Path, names: list[str]) -> tuple[list[Tensor], int, list[str]]:
    """Read headers one after the other; return the tensors, the bytes on disk and the faults met."""
    tensors: dict[str, Tensor] = {}
    size = 0
    faults: list[str] = []
    for name in names:
        try:
            found, file_bytes = read_header(folder / name)
        except DoctorError as error:
            faults.append(error.message)
            continue
        size += file_bytes
        tensors.update((tensor.name, tensor) for tensor in found)
        if len(tensors) > MAX_TENSORS:
            faults.append(f"{folder}: more than {MAX_TENSORS} tensors; the rest is not counted")
            break
    return list(tensors.values()), size, faults


def read_header(path: Path) -> tuple[list[Tensor], int]:
    """Return the tensors of one safetensors file and its bytes on disk.

    Raises DoctorError when the file is no safetensors file or shorter than its header says.
    """
    try:
        with path.open("rb") as file:
            start = file.read(8)
            length = struct.unpack("<Q", start)[0] if len(start) == 8 else 0
            check_length(path, start, length)
            raw = file.read(length)
            file_bytes = file.seek(0, 2)
    except OSError as error:
        raise DoctorError(f"{path}: {error.strerror or error}") from error
    if len(raw) < length:
        raise DoctorError(f"{path.name} is cut inside its header: download it again")
    tensors, end = parse_header(raw, path)
    if file_bytes != 8 + length + end:
        raise DoctorError(describe_cut(path, file_bytes, 8 + length + end))
    return tensors, file_bytes


def check_length(path: Path, start: bytes, length: int) -> None:
    """Raise DoctorError when the first eight bytes cannot be a safetensors header length."""
    if start.startswith(b"version"):
        raise DoctorError(
            f"{path.name} is a Git LFS pointer, not weights", hint="run `git lfs pull` in the model folder"
        )
    if not 2 <= length <= MAX_HEADER_BYTES:
        raise DoctorError(f"{path.name} is not a safetensors file (or is damaged): download it again")


def describe_cut(path: Path, file_bytes: int, expected: int) -> str:
    """Return the sentence about a file whose length differs from what its header says."""
    return (
        f"{path.name} has {format_size(file_bytes)} but its header describes {format_size(expected)}: "
        "the download is incomplete"
    )


def parse_header(raw: bytes, path: Path) -> tuple[list[Tensor], int]:
    """Return the tensors of a header and the end of the last one; malformed entries are skipped."""
    try:
        data = json.loads(raw)
    except (ValueError, RecursionError) as error:
        raise DoctorError(f"{path.name}: its header is not JSON: download it again") from error
    entries = data.items() if isinstance(data, dict) else ()
    tensors: list[Tensor] = []
    end = 0
    for name, entry in entries:
        if name == "__metadata__" or not isinstance(entry, dict):
            continue
        tensor, last = parse_entry(name, entry)
        tensors.append(tensor)
        end = max(end, last)
    return tensors, end


def parse_entry(name: str, entry: Mapping[str, object]) -> tuple[Tensor, int]:
    """Return one tensor and the offset of its last byte; wrong types count as nothing."""
    shape = tuple(n for n in cfg.get_list(entry, "shape") if isinstance(n, int) and 0 <= n <= cfg.MAX_NUMBER)
    offsets = [n for n in cfg.get_list(entry, "data_offsets") if isinstance(n, int) and n >= 0]
    begin, end = offsets if len(offsets) == 2 else (0, 0)
    return Tensor(name, cfg.get_text(entry, "dtype").lower(), shape[:8], max(0, end - begin)), end

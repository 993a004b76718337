"""What a model folder, a config.json or a GGUF file says, with everything that is wrong with it as notes."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from doctor.errors import DoctorError
from doctor.memory import config as cfg
from doctor.memory.gguf import read_gguf
from doctor.memory.headers import NOTHING, Headers, read_headers
from doctor.memory.naming import classify
from doctor.memory.shapes import Tensor

# Files beside config.json that describe quantization (ModelOpt, AutoGPTQ, AutoAWQ).
QUANT_FILES = ("hf_quant_config.json", "quantize_config.json", "quant_config.json")


class Files(NamedTuple):
    """A model's files: config, quantization description, headers, and what was wrong."""

    config: cfg.Config
    quantization: Mapping[str, object]
    headers: Headers
    notes: tuple[str, ...]


def read_files(path: Path) -> Files:
    """Read a model folder, a config.json or a .gguf file, without reading a weight.

    Raises DoctorError when there is nothing at `path` or nothing in it that describes a model.
    """
    if path.is_file() and path.suffix == ".gguf":
        return read_gguf_files(path)
    if path.is_file():
        return Files(cfg.make_config(cfg.read_json(path)), {}, NOTHING, ())
    if not path.is_dir():
        raise DoctorError(
            f"{path}: no such model folder or config.json",
            hint="give the folder a model was downloaded to (nothing is downloaded here)",
        )
    return read_folder(path)


def read_gguf_files(path: Path) -> Files:
    """Read a GGUF file's header."""
    data, tensors, file_bytes = read_gguf(path)
    headers = Headers(tensors, file_bytes, complete=True, notes=())
    return Files(cfg.make_config(fill_tied(data, headers)), {}, headers, ())


def read_folder(folder: Path) -> Files:
    """Read a model folder; a missing or damaged config.json leaves what the weight files say."""
    headers = read_headers(folder)
    notes = list(headers.notes)
    config_path = folder / "config.json"
    ggufs = sorted(folder.glob("*.gguf"))[:1]
    if not config_path.is_file() and not headers.tensors and ggufs:
        return read_gguf_files(ggufs[0])
    data: Mapping[str, object] = {}
    try:
        data = cfg.read_json(config_path)
    except DoctorError as error:
        if not headers.tensors:
            raise
        notes.append(f"{error.message}: only the weight files' headers are used")
    if not headers.tensors and not headers.notes:
        notes.append(describe_no_weights(folder))
    filled, found = fill_sizes(data, headers.tensors)
    config = cfg.make_config(fill_tied(filled, headers))
    return Files(config, read_quant_file(folder, notes), headers, (*notes, *found))


def fill_tied(data: Mapping[str, object], headers: Headers) -> Mapping[str, object]:
    """Add tie_word_embeddings when the config is silent and the files have no output head."""
    text = cfg.make_config(data).text
    silent = "tie_word_embeddings" not in data and "tie_word_embeddings" not in text
    if not silent or not headers.complete or any(classify(t.name)[1] == "head" for t in headers.tensors):
        return data
    return {**data, "tie_word_embeddings": True}


def describe_no_weights(folder: Path) -> str:
    """Return the sentence about a folder without safetensors files."""
    others = sorted({path.suffix for path in folder.glob("*.bin")} | {p.suffix for p in folder.glob("*.pt")})
    if others:
        return f"the weights are {' and '.join(others)} files, which have no header: sizes come from config.json"
    return "the folder holds no weight files: sizes come from config.json"


def read_quant_file(folder: Path, notes: list[str]) -> Mapping[str, object]:
    """Return the quantization description that lies beside config.json, empty when there is none."""
    for name in QUANT_FILES:
        path = folder / name
        if path.is_file():
            try:
                return cfg.read_json(path)
            except DoctorError as error:
                notes.append(error.message)
    return {}


def fill_sizes(data: Mapping[str, object], tensors: tuple[Tensor, ...]) -> tuple[Mapping[str, object], list[str]]:
    """Add sizes that config.json lacks and the headers show: layers, hidden size, vocabulary."""
    text = cfg.make_config(data).text
    found = {name: size for name, size in infer_sizes(tensors).items() if cfg.get_int(text, name) is None}
    aliases = {"num_hidden_layers": ("n_layer",), "hidden_size": ("n_embd",), "vocab_size": ()}
    found = {n: s for n, s in found.items() if cfg.get_int(text, *aliases.get(n, ())) is None}
    if not found or not data:
        return {**found, **data}, []
    names = ", ".join(f"{name} {size}" for name, size in found.items())
    filled = {**data, **found} if text is data else {**data, "text_config": {**text, **found}}
    return filled, [f"config.json lacks {', '.join(found)}; the weight files say {names}"]


def infer_sizes(tensors: tuple[Tensor, ...]) -> dict[str, int]:
    """Return what tensor names and shapes say about the model's sizes."""
    sizes: dict[str, int] = {}
    last = -1
    for tensor in tensors:
        layer, part = classify(tensor.name)
        last = max(last, layer)
        if part == "embedding" and len(tensor.shape) == 2:
            sizes["vocab_size"], sizes["hidden_size"] = tensor.shape
    if last >= 0:
        sizes["num_hidden_layers"] = last + 1
    return {name: size for name, size in sizes.items() if size > 0}

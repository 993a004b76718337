"""The model's folder: configuration, weights, tokenizer and chat template, before an hour of loading."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from doctor.errors import DoctorError
from doctor.memory import config as cfg
from doctor.memory.headers import INDEX, NOTHING, list_shards, read_headers, read_index
from doctor.memory.units import format_size
from doctor.probes.base.context import Context
from doctor.probes.base.launch import is_remote
from doctor.probes.base.result import Result, make_error, make_ok, make_unknown, make_void, make_warning
from doctor.probes.base.stack import find_version, read_interpreter

NAME = "model-files"
GROUP = "launch"
SUMMARY = "the model's folder is complete"
NEEDS = ("paths", "python")
INSIDE = True

# What transformers and SGLang load a tokenizer from.
_TOKENIZERS = (
    *("tokenizer.json", "tokenizer.model", "vocab.json", "tekken.json"),
    *("tiktoken.model", "qwen.tiktoken", "spiece.model", "sentencepiece.bpe.model", "vocab.txt"),
)
_TEMPLATES = ("chat_template.jinja", "chat_template.json")
# Files of models without a config.json.
_OTHER_FORMATS = (
    ("params.json", "has Mistral's own format"),
    ("model_index.json", "is a diffusion pipeline"),
)
# Load formats that take no weights from the folder: made up, or read from another server.
_WITHOUT_FILES = ("dummy", "remote")
_OTHER_WEIGHTS = (".bin", ".pt", ".pth", ".gguf")
# `organisation/name` as the hub has it.
_REPOSITORY = re.compile(r"[A-Za-z0-9][\w.-]{0,95}/[\w.-]{1,95}")
_MAX_SOURCES, _MAX_SOURCE_BYTES = 600, 400_000


def probe(context: Context) -> Iterator[Result]:
    """Look at the folder that --model-path names."""
    name = context.value("model_path")
    if context.launch is None or not isinstance(name, str):
        yield make_void(NAME, "no model was named (doctor check --model DIR)")
        return
    if is_remote(name):
        yield make_void(NAME, f"{name} is read through a connector, which is not looked into")
        return
    row = (context.look("paths").data or {}).get(os.path.expanduser(name))
    if row is None and context.look("paths").reason:
        yield make_unknown(NAME, SUMMARY, context.look("paths").reason)
    elif context.model is None:
        yield from say_absent(name)
    elif row is not None and row.get("exists") and not row.get("readable"):
        yield make_error(NAME, f"{name} is not readable for this user", (), (f"ls -ld {name}",))
    else:
        yield from check_folder(context, Path(context.model))


def say_absent(name: str) -> Iterator[Result]:
    """Judge a path that is not there; a hub name is the disk probe's business."""
    if name.startswith(("/", "./", "../", "~")) or name.count("/") > 1:
        fixes = (f"ls {os.path.dirname(name) or '.'}", "in a container: mount the folder that holds it")
        summary = f"{name} does not exist, or this user may not look: SGLang will call it an invalid repository name"
        yield make_error(NAME, summary, (), fixes)
    else:
        yield make_void(NAME, f"{name} is a name on the hub, and it is not in the local cache")


def check_folder(context: Context, folder: Path) -> Iterator[Result]:
    """Check each part of a folder; a .gguf file is a model by itself."""
    if folder.is_file():
        yield make_ok(NAME, f"{folder.name} is a single file of {format_size(folder.stat().st_size)}")
        return
    for name, kind in _OTHER_FORMATS:
        if (folder / name).is_file() and not (folder / "config.json").exists():
            yield make_ok(NAME, f"{folder} {kind}, which is not looked into")
            return
    config = None
    try:
        config = cfg.make_config(cfg.read_json(folder / "config.json"))
    except DoctorError as error:
        fixes = suggest_download(folder, "config.json")
        yield make_error(NAME, f"config.json: {error.message.rpartition(': ')[2]}", (error.message,), fixes)
    problems = [*check_weights(context, folder), *check_tokenizer(context, folder)]
    if config is not None:
        problems += [*check_architecture(context, config), *check_code(context, config)]
    yield from problems
    if config is not None and not any(problem.severity == "error" for problem in problems):
        name = next(iter(cfg.list_architectures(config)), "no architecture named")
        facts = (("model.architecture", name),)
        yield make_ok(NAME, f"{folder}: {name}, complete as far as its headers say", facts=facts)


def check_weights(context: Context, folder: Path) -> Iterator[Result]:
    """Yield missing, cut and pointer files."""
    if str(context.value("load_format")).startswith(_WITHOUT_FILES):
        return
    index, faults = read_index(folder)
    headers = read_headers(folder) if list_shards(folder, index) else NOTHING._replace(notes=tuple(faults))
    others = [path for path in islice(folder.iterdir(), 5000) if path.suffix in _OTHER_WEIGHTS]
    fixes = suggest_download(folder)
    for note in headers.notes:
        more = ("git lfs pull",) if "LFS" in note else ()
        yield make_error(NAME, note, (), (*more, *fixes))
    if not headers.tensors and not headers.notes and not others:
        yield make_error(NAME, f"{folder} holds no weights", (f"no {INDEX}, no *.safetensors",), fixes)


def suggest_download(folder: Path, files: str = "") -> tuple[str, ...]:
    """Return the command that fetches what is missing, as far as the repository's name can be told."""
    repository = find_repository(folder)
    if repository is None:
        what = f"{files} " if files else ""
        return (f"download {what}again into {folder}: hf download fetches only what is missing",)
    include = f" --include {shlex.quote(files)}" if files else ""
    place = "" if "models--" in str(folder) else f" --local-dir {shlex.quote(str(folder))}"
    return (f"hf download {repository}{include}{place}",)


def find_repository(folder: Path) -> str | None:
    """Return the repository that a folder is a copy of: by its place in the cache, else by what config.json says."""
    cached = next((part for part in folder.parts if part.startswith("models--")), "")
    if cached:
        return cached.removeprefix("models--").replace("--", "/", 1)
    try:
        name = cfg.get_text(cfg.read_json(folder / "config.json"), "_name_or_path")
    except DoctorError:
        return None
    return name if _REPOSITORY.fullmatch(name) else None


def check_tokenizer(context: Context, folder: Path) -> Iterator[Result]:
    """Yield a missing tokenizer and a missing chat template."""
    if context.value("skip_tokenizer_init") or context.is_given("tokenizer_path"):
        return
    own = (path for pattern in ("*.tiktoken", "tokenization_*.py") for path in folder.glob(pattern))
    if not any((folder / name).is_file() for name in _TOKENIZERS) and not any(islice(own, 1)):
        fixes = (*suggest_download(folder, "tokenizer*"), "or name another folder with --tokenizer-path")
        yield make_error(NAME, f"{folder} holds no tokenizer", (), fixes)
    elif not has_template(context, folder):
        summary = "no chat template: /v1/chat/completions will guess one (a base model has none)"
        yield Result(NAME, "problem", summary, "info", fixes=("name one with --chat-template",))


def has_template(context: Context, folder: Path) -> bool:
    """Tell whether a chat template is given or lies in the folder."""
    if context.is_given("chat_template") or any((folder / name).is_file() for name in _TEMPLATES):
        return True
    try:
        return "chat_template" in cfg.read_json(folder / "tokenizer_config.json")
    except DoctorError:
        return False


def check_architecture(context: Context, config: cfg.Config) -> Iterator[Result]:
    """Yield an architecture that the installed SGLang has no class for."""
    names = cfg.list_architectures(config)
    at = str(read_interpreter(context).get("sglang_at") or "")
    if not names:
        yield make_error(NAME, "config.json names no architecture", (), ("download config.json again",))
        return
    if not cfg.get_text(config.whole, "model_type"):
        # transformers refuses it with "Unrecognized model" (seen with 0.5.23 after 12 s)
        yield make_error(NAME, "config.json names no model_type", (), ("download config.json again",))
        return
    is_extended = bool(context.environment.get("SGLANG_EXTERNAL_MODEL_PACKAGE"))  # classes of the user's own
    known = list_known(Path(at).parent / "srt" / "models") if at and not is_extended else frozenset()
    if known and not known & set(names):
        version = find_version(context, "sglang") or "here"
        summary = f"sglang {version} has no class for {names[0]}: it falls back to Transformers or refuses"
        python = context.python.path or "python3"
        yield make_warning(NAME, summary, (), (f"{python} -m pip install -U sglang", "--model-impl transformers"))


def list_known(folder: Path) -> frozenset[str]:
    """List the classes that SGLang's model modules define, by reading them as text."""
    names: set[str] = set()
    try:
        paths = sorted(islice(folder.rglob("*.py"), _MAX_SOURCES))
        for path in paths:
            with path.open(encoding="utf-8", errors="replace") as stream:
                lines = stream.read(_MAX_SOURCE_BYTES).split("\nclass ")[1:]
            names.update(line.partition("(")[0].partition(":")[0].strip() for line in lines)
    except OSError:
        return frozenset()
    return frozenset(names)


def check_code(context: Context, config: cfg.Config) -> Iterator[Result]:
    """Mention code that comes with the model and is not allowed to run."""
    if "auto_map" in config.whole and not context.value("trust_remote_code"):
        summary = "config.json names Python code of the model's own, which runs only with --trust-remote-code"
        yield Result(NAME, "problem", summary, "info", fixes=("--trust-remote-code   # after reading it",))

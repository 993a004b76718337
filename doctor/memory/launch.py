"""One launch to be planned: the model's files, the arguments, the machine, and the model built for its ranks."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from doctor.errors import DoctorError
from doctor.memory import config as cfg
from doctor.memory.build import Choice, build_model, choose_family
from doctor.memory.gpus import Machine, make_gpu
from doctor.memory.headers import read_headers
from doctor.memory.parallel import ONE_RANK, Ranks, resolve_ranks, share
from doctor.memory.quant import Quant, is_unknown, read_quant
from doctor.memory.reading import Files, read_files
from doctor.memory.shapes import Model, Param
from doctor.memory.units import MIB
from doctor.memory.versions import parse_version
from doctor.memory.weights import (
    Counted,
    compare_parts,
    count_tensors,
    describe_factors,
    list_extras,
    scale_model,
)

TOWER_COUNTED = "the image or audio tower counts whole on every rank; some models divide it"
TOWER_UNKNOWN = "the image or audio tower is not counted: its config has no sizes that are known here"


class Launch(NamedTuple):
    """What is known before any size is computed.

    `counted` is None unless all headers were read, `factors` None unless they contradict the config.
    `draft_bytes` are the weight files of a draft model in a folder of its own, 0 without one.
    """

    files: Files
    choice: Choice
    counted: Counted | None
    factors: Mapping[str, float] | None
    whole: Model
    arguments: Mapping[str, object]
    machine: Machine
    version: str
    draft_bytes: int
    notes: tuple[str, ...]


def prepare_launch(path: Path, arguments: Mapping[str, object], machine: Machine, version: str) -> Launch:
    """Read the model's files and reconcile config and headers.

    Raises DoctorError when the config lacks a size that nothing else gives.
    """
    files = read_files(path)
    choice = choose_family(files.config)
    try:
        whole = build_whole(files, choice, arguments)
    except cfg.MissingSizeError as error:
        raise describe_missing(path, choice, error.name) from error
    counted = None
    factors: Mapping[str, float] | None = None
    if files.headers.complete and files.headers.tensors:
        counted = count_tensors(files.headers.tensors, len(whole.layers))
        factors = compare_parts(counted, whole)
    draft = measure_draft(arguments)
    launch = Launch(files, choice, counted, factors, whole, arguments, machine, version, draft, ())
    return launch._replace(notes=tuple(list_reading_notes(launch)))


def describe_missing(path: Path, choice: Choice, name: str) -> DoctorError:
    """Build the error for a size that nothing gives: the file is incomplete, or of a form that is not known here."""
    if choice.known:
        return DoctorError(
            f"{path}: config.json lacks {name}, and the weight files do not show it either",
            hint="give the original config.json of the model",
        )
    return DoctorError(
        f"{path}: architecture {choice.name} is unknown here and its config.json has no {name} to guess from",
        hint="start it once and read `mem usage` and `#tokens` in its log (doctor explain LOG)",
    )


def measure_draft(arguments: Mapping[str, object]) -> int:
    """Return the bytes of the draft model's weight files, 0 when it is no local folder of its own."""
    path = cfg.get_text(arguments, "speculative_draft_model_path", "speculative_draft_model")
    if not path or path == cfg.get_text(arguments, "model_path"):
        return 0
    return read_headers(Path(path)).file_bytes


def build_whole(files: Files, choice: Choice, arguments: Mapping[str, object]) -> Model:
    """Return the model as the checkpoint stores it: one rank, no --quantization, no draft."""
    quant = read_quant(files.config, files.quantization, "", cfg.get_text(arguments, "dtype"))
    return build_model(files.config, choice, ONE_RANK, quant, ({"disable_shared_experts_fusion": True}, ()))


def list_reading_notes(launch: Launch) -> list[str]:
    """Return what the reader of the plan should know about where its numbers come from."""
    notes = list(launch.files.notes)
    if not launch.choice.known:
        notes.append(
            f"architecture {launch.choice.name} is unknown here: its layers are taken for the usual ones of its "
            "sizes" + (", corrected by the weight files" if launch.counted else "")
        )
    if launch.counted is not None and launch.factors is not None:
        notes += describe_factors(launch.factors, launch.counted)
    if launch.whole.multimodal:
        counted = launch.counted is not None or any(param.part == "vision" for param in launch.whole.everywhere)
        notes.append(TOWER_COUNTED if counted else TOWER_UNKNOWN)
    return notes


def name_guess(launch: Launch) -> str:
    """Return what is unknown of the model and corrected by no weight file, so that its sizes are guesses; else ""."""
    if launch.counted is not None:
        return ""
    if not launch.choice.known:
        return launch.choice.name
    quant = read_quant(launch.files.config, launch.files.quantization, "", "")
    return f"quantization {quant.method[:40]}" if is_unknown(quant) else ""


def build_on_ranks(launch: Launch, arguments: Mapping[str, object]) -> tuple[Model, Ranks, Quant]:
    """Return the model as one rank of this launch holds it."""
    ranks = resolve_ranks(arguments, launch.version)
    config = launch.files.config
    wanted = cfg.get_text(arguments, "quantization")
    quant = read_quant(config, launch.files.quantization, wanted, cfg.get_text(arguments, "dtype"))
    settings = (arguments, parse_version(launch.version))
    model = build_model(config, launch.choice, ranks, quant, settings)
    extras = make_draft_params(launch, ranks)
    if launch.counted is not None and launch.factors is not None:
        extras += list_extras(launch.counted, launch.whole, ranks)
    return scale_model(model, launch.factors or {}, extras), ranks, quant


def make_draft_params(launch: Launch, ranks: Ranks) -> tuple[Param, ...]:
    """Return one rank's share of a separate draft model."""
    size = share(launch.draft_bytes, ranks.tp)
    return (Param("(draft model)", "draft model", size, "as stored"),) if launch.draft_bytes else ()


def describe_cpu_machine(machine: Machine) -> Machine:
    """Return the machine of a --device cpu launch: the host's memory in the place of a GPU's."""
    memory = machine.ram_available or machine.ram
    if memory is None:
        return machine._replace(gpu=None)
    gpu = make_gpu("CPU", memory // MIB, (0, 0))._replace(usable=memory)
    return machine._replace(gpu=gpu, gpus=max(1, machine.gpus), gpu_free=None)

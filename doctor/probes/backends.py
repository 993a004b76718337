"""Attention, MoE, GEMM and quantization choices against the GPUs' compute capability."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from doctor.errors import DoctorError
from doctor.launch.edits import Edit
from doctor.launch.versions import sort_key
from doctor.memory import config as cfg
from doctor.memory.gpus import check_gpu, make_gpu
from doctor.memory.quant import read_quant
from doctor.probes.base.context import Context
from doctor.probes.base.devices import Device, list_used
from doctor.probes.base.result import Result, make_error, make_ok, make_unknown, make_void, make_warning

NAME = "backends"
GROUP = "launch"
SUMMARY = "the chosen backends run on these GPUs"
NEEDS = ("gpus", "paths")
INSIDE = False


class Gate(NamedTuple):
    """A value of a flag, the compute-capability majors (times ten) that can run it, and the version that says so."""

    dest: str
    value: str
    majors: tuple[int, ...]
    since: str = ""


# SGLang 0.5.23: attention_registry.py, attention_hook.py, overrides.py, fp8_utils.py, mxfp4.py, mega_moe_hook.py,
# kv_cache_hook.py. trtllm_mha had no Hopper and no SM12x kernels before 0.5.22, where it was for SM100 alone.
_GATES = (
    Gate("attention_backend", "fa3", (80, 90)),
    Gate("attention_backend", "fa4", (90, 100, 110, 120)),
    Gate("attention_backend", "flashmla", (90, 100)),
    Gate("attention_backend", "cutlass_mla", (100,)),
    Gate("attention_backend", "trtllm_mla", (100, 120)),
    Gate("attention_backend", "trtllm_mha", (90, 100, 120), "0.5.22"),
    Gate("attention_backend", "trtllm_mha", (100,)),
    Gate("attention_backend", "cutedsl_mla", (100,)),
    Gate("attention_backend", "tokenspeed_mla", (100,)),
    Gate("attention_backend", "hpc_ops", (90,)),
    Gate("moe_runner_backend", "flashinfer_trtllm", (100,)),
    Gate("moe_runner_backend", "flashinfer_mxfp4", (90, 100, 120)),
    Gate("moe_runner_backend", "flashinfer_cutedsl", (100,)),
    Gate("moe_runner_backend", "deep_gemm", (90, 100)),
    Gate("moe_runner_backend", "hpc_ops", (90,)),
    Gate("moe_runner_backend", "megamoe", (90, 100)),
    Gate("moe_a2a_backend", "megamoe", (90, 100)),
    Gate("fp8_gemm_runner_backend", "deep_gemm", (90, 100)),
    Gate("fp8_gemm_runner_backend", "flashinfer_trtllm", (100,)),
    Gate("fp8_gemm_runner_backend", "flashinfer_cutedsl", (100,)),
    Gate("fp8_gemm_runner_backend", "flashinfer_deepgemm", (90,)),
    Gate("kv_cache_dtype", "nvfp4", (100, 120)),
    Gate("kv_cache_dtype", "mxfp8", (100, 110, 120)),
)
# Backends that need a model with, or without, multi-head latent attention (attention_registry.py, 0.5.15 and 0.5.23).
_LATENT_ONLY = frozenset({"trtllm_mla", "cutedsl_mla", "tokenspeed_mla", "cutlass_mla", "flashmla"})
_NEVER_LATENT = frozenset({"trtllm_mha", "hpc_ops"})
# What runs everywhere that SGLang runs.
_SAFE = {
    "attention_backend": "triton",
    "moe_runner_backend": "auto",
    "fp8_gemm_runner_backend": "auto",
    "kv_cache_dtype": "auto",
}


def probe(context: Context) -> Iterator[Result]:
    """Judge flags first, then the checkpoint's quantization."""
    used = [device for device in list_used(context) if device.level is not None]
    if context.launch is None or not context.uses_gpu:
        yield make_void(NAME, "no launch on a GPU to judge")
        return
    if not used:
        yield make_unknown(NAME, SUMMARY, context.look("gpus").reason or "no GPU is visible")
        return
    device = min(used, key=lambda one: one.level or 0)
    problems = list(check_gates(context, device))
    problems += check_latent(context, device) if not problems else ()
    problems += [*check_dtype(context, device), *check_quant(context, device)]
    yield from problems
    if not problems:
        yield make_ok(NAME, f"flags and quantization run on {device.name} (sm{device.level})")


def check_gates(context: Context, device: Device) -> Iterator[Result]:
    """Yield backends that this generation cannot run."""
    version = sort_key(context.launch.table.version) if context.launch else ()
    dests = ("attention_backend", "prefill_attention_backend", "decode_attention_backend")
    for dest in (*dests, "moe_runner_backend", "moe_a2a_backend", "fp8_gemm_runner_backend", "kv_cache_dtype"):
        value = context.value(dest)
        kind = "attention_backend" if dest in dests else dest
        gates = [gate for gate in _GATES if (gate.dest, gate.value) == (kind, value)]
        gate = next((one for one in gates if not one.since or version >= sort_key(one.since)), None)
        if gate and (device.level or 0) // 10 * 10 not in gate.majors:
            yield describe_gate(dest, gate, device)


def describe_gate(dest: str, gate: Gate, device: Device) -> Result:
    """Say where a backend runs and what to take instead."""
    flag = f"--{dest.replace('_', '-').replace('gemm-runner', 'gemm')}"
    places = ", ".join(f"sm{major}" for major in gate.majors)
    safe = _SAFE.get(gate.dest)
    edits = (Edit("flag", flag, gate.value, safe),)
    fix = f"{flag} {safe}" if safe else f"drop {flag}"
    summary = f"{flag} {gate.value} runs on {places}, and {device.name} is sm{device.level}"
    return make_error(NAME, summary, (), (fix,), edits)


def check_latent(context: Context, device: Device) -> Iterator[Result]:
    """Yield an attention backend for the other kind of attention than the model has."""
    backend, config = context.value("attention_backend"), read_config(context)
    if config is None or not isinstance(backend, str):
        return
    is_latent = cfg.get_int(config.text, "kv_lora_rank") is not None
    old = backend == "fa3" and is_latent and (device.level or 0) < 90
    if old or (is_latent and backend in _NEVER_LATENT) or (not is_latent and backend in _LATENT_ONLY):
        kind = "has" if is_latent else "has no"
        place = f" on sm{device.level}" if old else ""
        summary = f"--attention-backend {backend} does not go with a model that {kind} latent attention (MLA){place}"
        edits = (Edit("flag", "--attention-backend", backend, "triton"),)
        yield make_error(NAME, summary, (), ("--attention-backend triton",), edits)


def read_config(context: Context) -> cfg.Config | None:
    """Read the model's config.json, None when it is not here or not readable."""
    if context.model is None:
        return None
    try:
        return cfg.make_config(cfg.read_json(Path(context.model) / "config.json"))
    except DoctorError:
        return None


def check_dtype(context: Context, device: Device) -> Iterator[Result]:
    """Yield bfloat16 on a GPU that has none."""
    if (device.level or 0) < 80 and context.value("dtype") in ("bfloat16", "bf16"):
        edits = (Edit("flag", "--dtype", "bfloat16", "half"),)
        yield make_error(NAME, f"{device.name} has no bfloat16", (), ("--dtype half",), edits)


def check_quant(context: Context, device: Device) -> Iterator[Result]:
    """Yield a quantization that this generation refuses or runs as weight-only."""
    method = find_method(context)
    if not method or device.capability is None:
        return
    gpu = make_gpu(device.name, 0, device.capability)
    for note in check_gpu(gpu, method):
        if "refuses" in note:
            yield make_error(NAME, note, (), ("a checkpoint in another format: AWQ or GPTQ for older GPUs",))
        elif method in note:
            yield make_warning(NAME, note)._replace(severity="info")


def find_method(context: Context) -> str:
    """Return the quantization of the checkpoint, else the flag's."""
    given = context.value("quantization")
    given = given if isinstance(given, str) else ""
    config = read_config(context)
    return given if config is None else read_quant(config, {}, given, "auto").method or given

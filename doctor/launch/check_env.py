"""Check the environment variables of a command: names, the allocator's setting, and the visible GPUs."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from doctor.errors import DoctorError
from doctor.launch.alloc_conf import VARIABLES, parse_alloc_conf
from doctor.launch.edits import Edit
from doctor.launch.flags import FlagTable
from doctor.launch.model import Assignment, Command
from doctor.launch.problem import Problem
from doctor.launch.torch_versions import ALLOC_KEYS, FIRST_ALLOC_CONF, torch_of, unknown_keys
from doctor.launch.values import Values, is_open
from doctor.launch.versions import sort_key

# Written by tools/variable_table.py: name to the first and the last version that mentions it.
VARIABLE_TABLE = Path(__file__).with_name("variables.json")
# Variables of other programs that launches of SGLang set, for spelling.
COMMON_NAMES = (
    *VARIABLES,
    *("CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER", "CUDA_LAUNCH_BLOCKING", "CUDA_HOME", "HIP_VISIBLE_DEVICES"),
    *("HF_TOKEN", "HF_HOME", "HF_ENDPOINT", "HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE", "NCCL_DEBUG"),
    *("NCCL_SOCKET_IFNAME", "NCCL_IB_DISABLE", "NCCL_P2P_DISABLE", "NCCL_IB_HCA", "GLOO_SOCKET_IFNAME"),
    *("OMP_NUM_THREADS", "TRITON_CACHE_DIR", "TORCHINDUCTOR_CACHE_DIR", "FLASHINFER_WORKSPACE_BASE"),
)
# How alike two names must be (difflib) to be a misspelling and not another name.
MISSPELT = 0.9


def check_env(command: Command, values: Values, table: FlagTable) -> Iterator[Problem]:
    """Yield the problems of the variables that a command sets."""
    for item in command.env:
        if item.name.startswith(("SGLANG_", "SGL_")):
            yield from check_name(item, table)
        else:
            yield from check_spelling(item, COMMON_NAMES)
    yield from check_allocator(command.env, table)
    yield from check_devices(command.env, values)


def rename(item: Assignment, name: str) -> tuple[Edit, ...]:
    """Return the edits that give a variable another name."""
    return Edit("env", item.name, item.value, None), Edit("env", name, None, item.value or "")


def check_name(item: Assignment, table: FlagTable) -> Iterator[Problem]:
    """Yield what is wrong with the name of one of SGLang's own variables."""
    known = json.loads(VARIABLE_TABLE.read_text(encoding="utf-8"))
    current = [name for name, (first, last) in known.items() if is_between(first, table.version, last)]
    if item.name in current:
        return
    renamed = item.name.replace("SGL_", "SGLANG_", 1)
    if item.name.startswith("SGL_") and renamed in current:
        message = f"{item.name} is called {renamed} in SGLang {table.version}"
        yield Problem("environment", "warning", item.name, message, rename(item, renamed))
        return
    misspelt = list(check_spelling(item, current))
    if misspelt:
        yield from misspelt
        return
    first, last = known.get(item.name, ("", ""))
    span = first if first == last else f"{first} to {last}"
    when = f"; {span} did" if last else ""
    message = f"SGLang {table.version} does not read {item.name}{when}"
    yield Problem("environment", "warning", item.name, message, (Edit("env", item.name, item.value or "", None),))


def is_between(first: str, version: str, last: str) -> bool:
    """Tell whether a version lies in a span."""
    return sort_key(first) <= sort_key(version) <= sort_key(last)


def check_spelling(item: Assignment, names: Sequence[str]) -> Iterator[Problem]:
    """Yield the problem of a name that is almost another one."""
    import difflib

    near = difflib.get_close_matches(item.name, names, n=1, cutoff=MISSPELT)
    if near and near[0] != item.name:
        yield Problem("environment", "warning", item.name, f"{item.name} looks like {near[0]}", rename(item, near[0]))


def check_allocator(env: Sequence[Assignment], table: FlagTable) -> Iterator[Problem]:
    """Yield what torch will not understand in the allocator's settings."""
    settings = [item for item in env if item.name in VARIABLES and item.value and not is_open(item.value)]
    if len({item.name for item in settings}) > 1:
        message = f"{settings[0].name} and {settings[-1].name} are both set; torch reads one of them"
        yield Problem("allocator", "warning", settings[-1].name, message)
    torch = torch_of(table.version)
    for item in settings:
        if item.name == VARIABLES[0] and sort_key(torch) < sort_key(FIRST_ALLOC_CONF):
            message = f"torch {torch} does not read {item.name}"
            fixes = rename(item, VARIABLES[1])
            yield Problem("allocator", "warning", item.name, message, fixes)
        try:
            options = parse_alloc_conf(item.value or "")
        except DoctorError as error:
            yield Problem("allocator", "error", item.name, error.message)
            continue
        yield from check_options(item.name, options, torch)


def check_options(name: str, options: Mapping[str, str], torch: str) -> Iterator[Problem]:
    """Yield keys that this torch does not know, and settings that exclude each other or have wrong values."""
    for key in unknown_keys(options, torch):
        since = f" (torch {ALLOC_KEYS[key]} does)" if key in ALLOC_KEYS else ""
        message = f"torch {torch} does not know {key}{since} and may crash on it"
        yield Problem("allocator", "error", name, message, (Edit("env", name, f"{key}:{options[key]}", f"{key}:"),))
    if options.get("expandable_segments", "").lower() == "true" and options.get("backend") == "cudaMallocAsync":
        fix = Edit("env", name, None, "expandable_segments:")
        yield Problem("allocator", "warning", name, "cudaMallocAsync has no expandable segments", (fix,))
    threads = "pinned_num_register_threads"
    if threads in options and options.get("pinned_use_cuda_host_register", "").lower() != "true":
        fix = Edit("env", name, None, "pinned_use_cuda_host_register:True")
        message = f"{threads} has an effect with pinned_use_cuda_host_register:True only"
        yield Problem("allocator", "warning", name, message, (fix,))
    for key in ("expandable_segments", "pinned_use_cuda_host_register", "release_lock_on_cudamalloc"):
        value = options.get(key, "True")
        if value not in {"True", "False"}:
            fix = Edit("env", name, f"{key}:{value}", f"{key}:{value.lower() in {'1', 'true', 'yes', 'on'}}")
            yield Problem("allocator", "error", name, f"{key} is True or False, not {value}", (fix,))


def check_devices(env: Sequence[Assignment], values: Values) -> Iterator[Problem]:
    """Yield a problem when fewer GPUs are visible than this node's ranks need."""
    visible = [item.value for item in env if item.name == "CUDA_VISIBLE_DEVICES" and item.value is not None]
    needed = count_devices(values)
    if not visible or needed is None or is_open(visible[-1]):
        return
    devices = [device for device in visible[-1].split(",") if device.strip()]
    if len(devices) >= needed or values.read("device") not in {None, "cuda"}:
        return
    message = f"CUDA_VISIBLE_DEVICES shows {len(devices)} GPU(s), but the flags need {needed} on this node"
    hides_all = (Edit("env", "CUDA_VISIBLE_DEVICES", visible[-1], None),)
    fixes = shrink_tp(values, len(devices), needed) if devices else hides_all
    yield Problem("devices", "error", "CUDA_VISIBLE_DEVICES", message, fixes)


def count_devices(values: Values) -> int | None:
    """Return how many GPUs one node must see, None when the flags do not say.

    tp * pp ranks over all nodes, on GPU `base_gpu_id` and every `gpu_id_step`-th one after it. Replicas
    (--dp-size) multiply them, unless DP attention shares the ranks (srt/managers/data_parallel_controller.py).
    """
    names = ("tp_size", "pp_size", "nnodes", "base_gpu_id", "gpu_id_step")
    numbers = [values.read(name) for name in names]
    if not all(isinstance(number, int) for number in numbers) or values.unknown & {*names, "dp_size"}:
        return None
    tp, pp, nodes, base, step = numbers
    shares = values.read("enable_dp_attention")
    replicas = values.read("dp_size") if not shares else 1
    ranks = tp * pp * replicas // max(1, nodes) if isinstance(replicas, int) else 0
    return base + (ranks - 1) * step + 1 if ranks else None


def shrink_tp(values: Values, visible: int, needed: int) -> tuple[Edit, ...]:
    """Return the edit to the largest power of two of tp ranks that fits, when nothing else multiplies them."""
    tp = values.read("tp_size")
    if tp != needed:
        return ()
    return (Edit("flag", "--tp-size", str(tp), str(1 << (visible.bit_length() - 1))),)

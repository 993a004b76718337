"""PYTORCH_ALLOC_CONF and its older names: syntax, keys that the installed torch knows, and which one wins."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from doctor.errors import DoctorError
from doctor.launch.alloc_conf import VARIABLES, merge_alloc_conf, parse_alloc_conf
from doctor.launch.edits import Edit
from doctor.launch.torch_versions import ALLOC_KEYS, FIRST_ALLOC_CONF, torch_of, unknown_keys
from doctor.launch.versions import sort_key
from doctor.probes.base.context import Context
from doctor.probes.base.edits import set_variable
from doctor.probes.base.result import Result, add_facts, make_error, make_ok, make_void, make_warning
from doctor.probes.base.stack import find_version, read_torch

NAME = "allocator"
GROUP = "python"
SUMMARY = "torch understands its allocator's settings"
NEEDS = ("python",)
INSIDE = False

_SWITCHES = ("expandable_segments", "pinned_use_cuda_host_register", "release_lock_on_cudamalloc")


def probe(context: Context) -> Iterator[Result]:
    """Judge every variable that is set, by the torch that will read it."""
    settings = {name: value for name in VARIABLES if (value := context.environment.get(name))}
    if not settings:
        yield make_void(NAME, "no allocator variable is set")
        return
    torch = read_torch(context)[0] or torch_of(find_version(context, "sglang") or "9999")
    problems = [problem for name, value in settings.items() for problem in check_one(context, name, value, torch)]
    problems += [*check_winner(settings, torch), *check_contradictions(context, settings)]
    good = make_ok(NAME, f"torch {torch} knows every key of {' and '.join(settings)}")
    yield from add_facts(problems or [good], ((f"env.{name}", value) for name, value in settings.items()))


def check_one(context: Context, name: str, value: str, torch: str) -> Iterator[Result]:
    """Yield syntax errors, unknown keys and wrong switches of one variable."""
    evidence = (f"{name}={value}",)
    try:
        options = parse_alloc_conf(value)
    except DoctorError as error:
        edits = (set_variable(context, name, None),)
        yield make_error(NAME, f"torch cannot read {name}: {error.message}", evidence, (f"unset {name}",), edits)
        return
    for key in unknown_keys(options, torch):
        since = f" (it came with torch {ALLOC_KEYS[key]})" if key in ALLOC_KEYS else ""
        summary = f"torch {torch} does not know {key}{since}: the scheduler dies on it"
        yield make_error(NAME, summary, evidence, *drop_keys(context, name, value, torch))
    for key in _SWITCHES:
        if options.get(key, "True") not in ("True", "False"):
            fixed = merge_alloc_conf(value, f"{key}:{options[key].lower() in ('1', 'true', 'yes', 'on')}")
            edits = (set_variable(context, name, fixed),)
            yield make_error(
                NAME, f"{key} is True or False, not {options[key]}", evidence, (f"export {name}={fixed}",), edits
            )


def drop_keys(context: Context, name: str, value: str, torch: str) -> tuple[tuple[str, ...], tuple[Edit, ...]]:
    """Return the command and the edit that leave only the keys that this torch knows."""
    kept = {key: setting for key, setting in parse_alloc_conf(value).items() if not unknown_keys([key], torch)}
    text = ",".join(f"{key}:{setting}" for key, setting in kept.items())
    command = f"export {name}={text}" if text else f"unset {name}"
    return (command,), (set_variable(context, name, text or None),)


def check_winner(settings: Mapping[str, str], torch: str) -> Iterator[Result]:
    """Yield a variable that torch does not read because of its version or of another one."""
    new, old = VARIABLES[0], VARIABLES[1]
    if new in settings and sort_key(torch) < sort_key(FIRST_ALLOC_CONF):
        fix = f"export {old}={settings[new]}"
        yield make_warning(NAME, f"torch {torch} does not read {new}, only {old}", (), (fix,))
    elif len(set(settings.values())) > 1:
        winner = next(iter(settings))
        evidence = tuple(f"{name}={value}" for name, value in settings.items())
        others = " ".join(name for name in settings if name != winner)
        yield make_warning(NAME, f"{winner} wins; {others} is ignored", evidence, (f"unset {others}",))


def check_contradictions(context: Context, settings: Mapping[str, str]) -> Iterator[Result]:
    """Yield settings together with features that cannot work on them."""
    for name, value in settings.items():
        flat = value.replace(" ", "")
        if "expandable_segments:True" in flat:
            yield from check_segments(context, name, value)
        pools = list_pools(context)
        if "backend:cudaMallocAsync" in flat and pools:
            # torch 2.11 on an H200: "cudaMallocAsync does not yet support createOrIncrefPool"
            fixed = merge_alloc_conf(value, "backend:native")
            edits, fixes = (set_variable(context, name, fixed),), (f"export {name}={fixed}",)
            summary = f"backend:cudaMallocAsync has no memory pools, and {' and '.join(pools)} needs one"
            yield make_error(NAME, summary, (f"{name}={value}",), fixes, edits)


def list_pools(context: Context) -> list[str]:
    """List what of this launch makes a pool of torch's (torch.cuda.MemPool)."""
    flags = ["--enable-symm-mem"] if context.value("enable_symm_mem") else []
    variable = "SGLANG_MOONCAKE_CUSTOM_MEM_POOL"
    return [*flags, variable] if context.environment.get(variable) else flags


def check_segments(context: Context, name: str, value: str) -> Iterator[Result]:
    """Yield expandable segments together with what needs memory at fixed places.

    Memory saver and the weight-cache daemon (0.5.23, weight_cache/daemon.py) and Mooncake over EFA
    (disaggregation/mooncake/utils.py); torch's own backend cudaMallocAsync ignores them. Pools with an allocator of
    their own do go with them (torch 2.11 on an H200).
    """
    clashes = ["--enable-memory-saver"] if context.value("enable_memory_saver") else []
    if context.environment.get("MOONCAKE_PROTOCOL", "").lower() == "efa":
        clashes.append("MOONCAKE_PROTOCOL=efa")
    fixed = merge_alloc_conf(value, "expandable_segments:False")
    edits, fixes = (set_variable(context, name, fixed),), (f"export {name}={fixed}",)
    if clashes:
        summary = f"expandable_segments:True does not go with {' and '.join(clashes)}"
        yield make_error(NAME, summary, (f"{name}={value}",), fixes, edits)
    elif "backend:cudaMallocAsync" in value.replace(" ", ""):
        # torch 2.11 starts with both and allocates (H200)
        summary = "expandable_segments:True has no effect with backend:cudaMallocAsync"
        yield make_warning(NAME, summary, (f"{name}={value}",), fixes, edits)

"""CUDA_VISIBLE_DEVICES and its relatives against the GPUs that are there and that the launch needs."""

from __future__ import annotations

from collections.abc import Iterator

from doctor.launch.edits import Edit
from doctor.probes.base.context import Context
from doctor.probes.base.devices import (
    Device,
    count_needed,
    find_device,
    list_devices,
    list_slices,
    list_visible,
    read_visible,
)
from doctor.probes.base.edits import set_variable
from doctor.probes.base.result import Result, add_facts, make_error, make_ok, make_unknown, make_void, make_warning

NAME = "visible-devices"
GROUP = "gpu"
SUMMARY = "the launch sees the GPUs it needs"
NEEDS = ("gpus",)
INSIDE = False
VARIABLE = "CUDA_VISIBLE_DEVICES"


def probe(context: Context) -> Iterator[Result]:
    """Judge the variable by itself, then the count against tp, pp, dp and base_gpu_id."""
    if not context.uses_gpu:
        yield make_void(NAME, "the launch runs on the CPU")
        return
    devices = list_devices(context)
    entries = read_visible(context)
    facts = (("env.CUDA_VISIBLE_DEVICES", context.environment.get(VARIABLE, "(not set)")),)
    yield from add_facts(judge(context, entries, devices), facts)


def judge(context: Context, entries: list[str] | None, devices: list[Device]) -> Iterator[Result]:
    """Yield what is wrong with the variable, else the count."""
    problems = list(check_entries(context, entries, devices)) if entries is not None else []
    yield from problems
    yield from check_others(context)
    if not devices:
        reason = context.look("gpus").reason or "no GPU answered"
        yield make_unknown(NAME, SUMMARY, reason) if context.launch else make_void(NAME, "no NVIDIA GPU to show")
        return
    if not any(problem.severity == "error" for problem in problems):
        yield check_count(context, devices, entries)


def check_entries(context: Context, entries: list[str], devices: list[Device]) -> Iterator[Result]:
    """Yield what is wrong with the variable's entries; CUDA ignores everything from the first wrong one on."""
    value = context.environment.get(VARIABLE, "")
    evidence = (f"{VARIABLE}={value!r}{name_origin(context)}",)
    if not entries[0]:
        state = "begins with a comma" if any(entries) else "is empty"
        yield make_error(NAME, f"{VARIABLE} {state}: it hides every GPU", evidence, *mend(context, devices))
        return
    if " " in value or '"' in value or "'" in value:
        clean = value.replace(" ", "").strip("'\"")
        edits = (set_variable(context, VARIABLE, clean),) if clean else ()
        yield make_warning(NAME, f"{VARIABLE} holds blanks or quotes", evidence, (f"export {VARIABLE}={clean}",), edits)
        entries = [entry.strip("'\" ") for entry in entries]
    names = [entry for entry in entries if entry]
    if len(set(names)) < len(names):
        twice = sorted({name for name in names if names.count(name) > 1})
        yield make_error(
            NAME,
            f"{VARIABLE} names {', '.join(twice)} twice: CUDA then shows no GPU",
            evidence,
            *mend(context, devices),
        )
    if devices:
        yield from check_names(context, names, devices, evidence)


def check_names(
    context: Context, names: list[str], devices: list[Device], evidence: tuple[str, ...]
) -> Iterator[Result]:
    """Yield entries that name no GPU of this machine."""
    wrong = [name for name in names if not (find_device(name, devices) or is_slice(name, devices))]
    if not wrong:
        return
    there = ", ".join(str(device.number) for device in devices)
    kept = names[: names.index(wrong[0])]
    seen = f"only {','.join(kept)} are seen" if kept else "no GPU is seen at all"
    summary = f"{VARIABLE} names {', '.join(wrong)}, which is not here: {seen}"
    is_enough = len(kept) >= max(1, count_needed(context) or 0)
    severe = make_warning if is_enough else make_error
    yield severe(NAME, summary, (*evidence, f"GPUs of this machine: {there}"), *mend(context, devices))


def is_slice(name: str, devices: list[Device]) -> bool:
    """Tell a MIG slice that is here, by its UUID or by the older MIG-GPU-UUID/INSTANCE/INSTANCE."""
    gpu = name.removeprefix("MIG-").partition("/")[0]
    old = "/" in name and any(device.uuid == gpu for device in devices)
    return old or any(part.startswith(name) for part in list_slices(devices))


def mend(context: Context, devices: list[Device]) -> tuple[tuple[str, ...], tuple[Edit, ...]]:
    """Return the command, and the edit, that show as many GPUs as the launch needs."""
    needed = count_needed(context) or len(devices)
    if not devices or needed > len(devices):
        return (f"unset {VARIABLE}",), (set_variable(context, VARIABLE, None),)
    wanted = ",".join(str(device.number) for device in devices[:needed])
    return (f"export {VARIABLE}={wanted}",), (set_variable(context, VARIABLE, wanted),)


def name_origin(context: Context) -> str:
    """Say where the variable was set when it was not set in the launch command."""
    command = context.launch.command if context.launch else None
    if command is not None and any(item.name == VARIABLE for item in command.env):
        return " in the launch command"
    first = context.read("/proc/1/environ") or ""
    if f"\0{VARIABLE}=" in f"\0{first}":
        return ", set by the image or the service (process 1 has it, too)"
    return " in this shell's environment"


def check_others(context: Context) -> Iterator[Result]:
    """Yield variables beside it that hide GPUs."""
    value = context.environment.get("NVIDIA_VISIBLE_DEVICES")
    # Kubernetes says "void" beside GPUs that it hands in by other means (CDI)
    if value in ("void", "none", "") and not list_devices(context):
        fixes = ("start the container with --gpus all, or with -e NVIDIA_VISIBLE_DEVICES=all",)
        yield make_warning(NAME, f"NVIDIA_VISIBLE_DEVICES={value!r} keeps GPUs out of this container", (), fixes)
    order = context.environment.get("CUDA_DEVICE_ORDER", "FASTEST_FIRST")
    kinds = {device.name for device in list_devices(context)}
    numbered = any(entry.isdecimal() for entry in read_visible(context) or ())
    if len(kinds) > 1 and order != "PCI_BUS_ID" and numbered:
        summary = "GPUs of different kinds: CUDA numbers them by speed, nvidia-smi by bus"
        edits = (set_variable(context, "CUDA_DEVICE_ORDER", "PCI_BUS_ID"),)
        yield make_warning(NAME, summary, (), ("export CUDA_DEVICE_ORDER=PCI_BUS_ID",), edits)


def check_count(context: Context, devices: list[Device], entries: list[str] | None) -> Result:
    """Compare the GPUs that are seen with those that the launch needs."""
    seen, needed = list_visible(context), count_needed(context)
    slices = [entry for entry in entries or () if entry.startswith("MIG-")]
    count = len(seen) or len(slices)
    if needed is None or needed <= count:
        wanted = f", {needed} needed" if needed is not None else ""
        return make_ok(NAME, f"{count} of {len(devices)} GPU(s) seen{wanted}")
    evidence = (f"GPUs here: {len(devices)}; seen: {count}; {describe_need(context)}",)
    if needed <= len(devices):
        return make_error(NAME, f"the launch needs {needed} GPUs and sees {count}", evidence, *mend(context, devices))
    tp = context.count("tp_size")
    fixes, edits = shrink(tp, needed, count)
    return make_error(NAME, f"the launch needs {needed} GPUs and sees {count}", evidence, fixes, edits)


def describe_need(context: Context) -> str:
    """Name the flags that decide how many GPUs are needed."""
    names = ("tp_size", "pp_size", "dp_size", "nnodes", "base_gpu_id", "gpu_id_step")
    given = [f"{name}={context.value(name)}" for name in names if context.is_given(name)]
    return ", ".join(given) or "one rank"


def shrink(tp: int, needed: int, count: int) -> tuple[tuple[str, ...], tuple[Edit, ...]]:
    """Return the largest power of two for --tp-size that the visible GPUs can hold."""
    if count < 1 or tp < 2 or needed % tp:
        return ("run it on a machine with more GPUs, or over several nodes (--nnodes)",), ()
    fitting = 1 << (max(1, count * tp // needed).bit_length() - 1)
    return (f"--tp-size {fitting}",), (Edit("flag", "--tp-size", str(tp), str(fitting)),)

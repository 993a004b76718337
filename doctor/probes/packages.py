"""Installed packages against the pins of the installed sglang, read from its own metadata."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import NamedTuple

from doctor.probes.base.context import Context
from doctor.probes.base.devices import wants_gpu
from doctor.probes.base.result import Result, add_facts, make_error, make_ok, make_unknown, make_warning
from doctor.probes.base.stack import (
    find_version,
    find_wheel_index,
    read_interpreter,
    read_requirements,
    write_install,
)
from doctor.probes.base.versions import applies, order_version, satisfies, split_requirement

NAME = "packages"
GROUP = "python"
SUMMARY = "packages have the versions that sglang pins"
NEEDS = ("python", "gpus")
INSIDE = True

# Without these there is no start. Many of the others were missing from a server of 0.5.15.post1 that was recorded on
# an H200, and it answered all the same, with a transformers that was not the pinned one.
_VITAL = frozenset(
    {"torch", "sglang-kernel", "sgl-kernel", "flashinfer-python", "transformers", "tokenizers", "xgrammar", "triton"}
)
# Without a GPU these are not even imported.
_GPU = frozenset({"sglang-kernel", "sgl-kernel", "flashinfer-python", "triton"})
# SGLang ends when these are older than its pin (assert_pkg_version in srt/entrypoints/engine.py), newer ones pass.
_ASSERTED = frozenset({"sglang-kernel", "sgl-kernel", "flashinfer-python"})


class Pin(NamedTuple):
    """One requirement of sglang with what is installed, None for nothing."""

    name: str
    specifier: str
    installed: str | None

    @property
    def wish(self) -> str:
        """What to hand to pip."""
        return self.name + self.specifier

    @property
    def state(self) -> str:
        """Both versions in words."""
        return f"{self.name} {self.installed or 'is missing'}, wanted {self.specifier or 'any version'}"


def probe(context: Context) -> Iterator[Result]:
    """Compare, vital packages first."""
    if context.look("python").data is None:
        yield make_unknown(NAME, SUMMARY, context.look("python").reason)
        return
    sglang = find_version(context, "sglang")
    if sglang is None:
        yield say_missing(context)
        return
    pins = list_pins(context)
    if not pins:
        yield make_unknown(NAME, SUMMARY, f"the metadata of sglang {sglang} names no requirements")
        return
    wrong = [pin for pin in pins if pin.installed is None or not satisfies(pin.installed, pin.specifier)]
    vital = [pin for pin in wrong if is_vital(context, pin)]
    found = list(describe_wrong(context, sglang, vital, [pin for pin in wrong if pin not in vital]))
    good = make_ok(NAME, f"sglang {sglang}: all {len(pins)} requirements are met")
    yield from add_facts(found or [good], list_facts(pins, sglang))


def is_vital(context: Context, pin: Pin) -> bool:
    """Tell whether a start with this in place of the requirement fails.

    torch of another minor version has another ABI; SGLang itself checks _ASSERTED, flashinfer only when it is used.
    """
    if pin.name not in (_VITAL if wants_gpu(context) else _VITAL - _GPU):
        return False
    if pin.name == "xgrammar" and context.value("grammar_backend") not in (None, "xgrammar"):
        return False
    if pin.installed is None:
        return True
    if pin.name == "flashinfer-python" and context.value("attention_backend") not in (None, "flashinfer"):
        return False
    have, want = order_version(pin.installed), order_version(pin.specifier.split(",")[0].lstrip("=<>~! "))
    return have < want if pin.name in _ASSERTED else pin.name == "torch" and have[0][:2] != want[0][:2]


def say_missing(context: Context) -> Result:
    """Say that there is no sglang, with the command that installs it for this driver."""
    at = read_interpreter(context).get("sglang_at")
    if at:
        summary = "sglang is imported from a folder without metadata, so its pins are unknown"
        folder = os.path.dirname(os.path.dirname(str(at)))
        return make_warning(NAME, summary, (str(at),), write_install(context, "-e", folder))
    data = context.look("gpus").data
    cuda = data.get("cuda") if isinstance(data, dict) else None
    # 0.5.12 is the first release whose wheels need CUDA 13 (cuda-python>=13.0 in its Requires-Dist)
    wish = "sglang<0.5.12" if isinstance(cuda, int) and cuda < 13000 else "sglang"
    fixes = write_install(context, wish)
    severe = make_error if context.launch is not None else make_warning
    return severe(NAME, f"sglang is not installed in {context.python.path}", (context.python.origin,), fixes)


def list_pins(context: Context) -> list[Pin]:
    """List the requirements of sglang that apply here."""
    found = read_interpreter(context)
    version = str(found.get("version", "3"))
    names = {
        "python_version": ".".join(version.split(".")[:2]),
        "python_full_version": version,
        "platform_machine": str(found.get("machine")),
        "sys_platform": "linux",
        "platform_system": "Linux",
        "os_name": "posix",
    }
    rows = [split_requirement(line) for line in read_requirements(context)]
    return [
        Pin(name, specifier, find_version(context, name))
        for name, _, specifier, marker in rows
        if name and applies(marker, names)
    ]


def describe_wrong(context: Context, sglang: str, vital: list[Pin], others: list[Pin]) -> Iterator[Result]:
    """Yield one result for what breaks the start and one for the rest."""
    if vital:
        index = find_wheel_index(context) if any(pin.name.startswith("torch") for pin in vital) else ""
        fixes = write_install(context, *(pin.wish for pin in vital), index=index)
        names = ", ".join(pin.state for pin in vital[:3]) + (" ..." if len(vital) > 3 else "")
        summary = f"sglang {sglang} needs other versions: {names}"
        yield make_error(NAME, summary, tuple(pin.state for pin in vital[:12]), fixes)
    if others:
        missing = sum(pin.installed is None for pin in others)
        state = f"{missing} are not installed" if missing else "all are installed in other versions"
        summary = f"{len(others)} requirements of sglang {sglang} are not met, which a start mostly survives: {state}"
        fixes = write_install(context, f"sglang=={sglang}")
        yield make_warning(NAME, summary, tuple(pin.state for pin in others[:12]), fixes)


def list_facts(pins: list[Pin], sglang: str) -> tuple[tuple[str, str], ...]:
    """List what --compare compares."""
    return (("package.sglang", sglang), *((f"package.{pin.name}", pin.installed or "(none)") for pin in pins))

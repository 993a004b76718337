"""Two copies of a package, old names beside new ones, and editable installs."""

from __future__ import annotations

from collections.abc import Iterator

from doctor.probes.base.context import Context
from doctor.probes.base.result import Result, make_error, make_ok, make_unknown, make_warning
from doctor.probes.base.stack import find_rows, find_version, write_install, write_removal
from doctor.probes.base.versions import satisfies

NAME = "duplicates"
GROUP = "python"
SUMMARY = "no package is there twice"
NEEDS = ("python", "imports")
INSIDE = True

# Distributions that install the same module; the second is the name in use now (renamed in SGLang 0.5.10, and
# flashinfer at 0.2.3). pynvml needs nvidia-ml-py and has no module of that name any more from 12.0 on.
_RENAMED = (("sgl-kernel", "sglang-kernel"), ("flashinfer", "flashinfer-python"), ("pynvml", "nvidia-ml-py"))
_FIRST_WITHOUT = {"pynvml": "12"}
_FLASHINFER = ("flashinfer-cubin", "flashinfer-jit-cache")


def probe(context: Context) -> Iterator[Result]:
    """Look for packages that fight over a module."""
    data = context.look("python").data
    if not isinstance(data, dict):
        yield make_unknown(NAME, SUMMARY, context.look("python").reason)
        return
    problems = [*check_copies(context, data["packages"]), *check_renamed(context), *check_flashinfer(context)]
    yield from problems
    yield from describe_editables(context, data["editables"])
    if not problems:
        yield make_ok(NAME, f"{len(data['packages'])} packages, none of the important ones twice")


def check_copies(context: Context, packages: dict[str, list[dict[str, object]]]) -> Iterator[Result]:
    """Yield packages of the stack that are installed in several versions."""
    for name in ("torch", "sglang", "sglang-kernel", "sgl-kernel", "transformers", "triton", "flashinfer-python"):
        rows = packages.get(name, [])
        if len({str(row["version"]) for row in rows}) > 1:
            evidence = tuple(f"{name} {row['version']} in {row['folder']}" for row in rows[:4])
            fixes = (write_removal(context, name) + "   # until none is left", *write_install(context, name))
            yield make_warning(NAME, f"{name} is installed {len(rows)} times; the first one counts", evidence, fixes)


def check_renamed(context: Context) -> Iterator[Result]:
    """Yield leftovers under a name that is no longer used."""
    for old, new in _RENAMED:
        before, now = find_version(context, old), find_version(context, new)
        if before and now and not (old in _FIRST_WITHOUT and satisfies(before, f">={_FIRST_WITHOUT[old]}")):
            severe = make_error if old == "sgl-kernel" and find_kernel(context) != now else make_warning
            fixes = (write_removal(context, old, new), *write_install(context, f"{new}=={now}"))
            summary = f"{old} and {new} own the same files; the one installed last has won"
            yield severe(NAME, summary, (f"{old} {before}", f"{new} {now}"), fixes)


def find_kernel(context: Context) -> str | None:
    """Return the version that the imported kernel package says it has, which is that of the files that won."""
    modules = context.look("imports").data or {}
    version = modules.get("sgl_kernel", {}).get("version")
    return str(version) if version else None


def check_flashinfer(context: Context) -> Iterator[Result]:
    """Yield parts of flashinfer of another version than its Python part: it refuses to be imported then."""
    base = find_version(context, "flashinfer-python")
    for part in _FLASHINFER:
        version = find_version(context, part)
        if base and version and version.partition("+")[0] != base.partition("+")[0]:
            fixes = write_install(context, f"{part}=={base}", index="https://flashinfer.ai/whl")
            yield make_error(NAME, f"{part} {version} does not belong to flashinfer-python {base}", (), fixes)


def describe_editables(context: Context, files: list[str]) -> Iterator[Result]:
    """Say that sglang is an editable install: its metadata is of the day it was installed."""
    rows = find_rows(context, "sglang")
    if rows and (rows[0].get("is_editable") or any("sglang" in name for name in files)):
        summary = f"sglang {rows[0]['version']} is an editable install: the version may be older than the source"
        yield make_ok(NAME, summary)

"""The Python of the launch: which one it is, its version, its C library, and what hides its packages."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from typing import Any

from doctor.probes.base.context import Context
from doctor.probes.base.result import Result, add_facts, make_error, make_ok, make_unknown, make_warning
from doctor.probes.base.stack import find_rows, read_interpreter
from doctor.probes.base.versions import order_version, satisfies

NAME = "interpreter"
GROUP = "python"
SUMMARY = "the launch's Python works"
NEEDS = ("python",)
INSIDE = True

_PLATFORM = re.compile(r"manylinux_(\d+)_(\d+)_(\w+)")
# Requires-Python of the wheels from 0.5.2 to 0.5.21; 0.5.22 and 0.5.23 want 3.11.
_SUPPORTED = ">=3.10"
_CONTAINER = "use the image lmsysorg/sglang, or a newer distribution"


def probe(context: Context) -> Iterator[Result]:
    """Judge the interpreter by what it said of itself."""
    python, found = context.python, read_interpreter(context)
    if python.path is None:
        yield make_unknown(NAME, SUMMARY, python.origin, ("name the interpreter with --python",))
        return
    if not found:
        reason = context.look("python").reason
        yield make_error(NAME, f"{python.path} does not work", (reason,), ("name the interpreter with --python",))
        return
    problems = [*check_version(context, found), *check_platform(context, found), *check_shadows(context, found)]
    libc = "-".join(found.get("libc") or ())
    good = make_ok(NAME, f"Python {found['version']}, {libc} ({python.path}: {python.origin})")
    yield from add_facts(problems or [good], (("python.version", str(found["version"])), ("python.libc", libc)))


def check_version(context: Context, found: dict[str, Any]) -> Iterator[Result]:
    """Yield a Python that the installed sglang does not support, or that none does."""
    rows = find_rows(context, "sglang")
    wanted = str(rows[0].get("requires_python") or "") if rows else _SUPPORTED
    version = str(found["version"])
    if wanted and not satisfies(version, wanted):
        name = f"sglang {rows[0]['version']}" if rows else "SGLang"
        severe = make_error if rows or context.launch is not None else make_warning
        fixes = ("uv venv --python 3.12 && uv pip install sglang",)
        yield severe(NAME, f"Python {version}, but {name} needs {wanted}", (), fixes)


def check_platform(context: Context, found: dict[str, Any]) -> Iterator[Result]:
    """Yield wheels that were built for another machine, another Python or a newer C library."""
    libc = found.get("libc") or ["", ""]
    for name in ("sglang", "sglang-kernel", "sgl-kernel", "torch"):
        for row in find_rows(context, name)[:1]:
            matches = [match for tag in row.get("tags", []) for match in _PLATFORM.finditer(tag)]
            if matches and not any(match[3] == found.get("machine") for match in matches):
                summary = f"{name} was built for {matches[0][3]}, this machine is {found.get('machine')}"
                yield make_error(NAME, summary, tuple(row["tags"][:2]), ("install it with this machine's own pip",))
            elif matches and libc[0] == "glibc":
                needed = min(order_version(f"{match[1]}.{match[2]}") for match in matches)
                if order_version(libc[1]) < needed:
                    summary = f"{name} needs glibc {'.'.join(map(str, needed[0]))}, this system has {libc[1]}"
                    yield make_error(NAME, summary, (), (_CONTAINER,))


def check_shadows(context: Context, found: dict[str, Any]) -> Iterator[Result]:
    """Yield files of the working folder, and a per-user folder, that come before the packages meant."""
    if found.get("shadows"):
        files = ", ".join(found["shadows"][:5])
        # `python -m` looks into the working folder first, a script such as `sglang` does not
        is_module = context.launch is not None and any(word.value == "-m" for word in context.launch.command.entry)
        severe = make_error if is_module else make_warning
        fixes = ("cd /   # and start the server from there, or rename these files",)
        yield severe(NAME, f"{files} in {os.getcwd()} hides the module of that name from python -m", (), fixes)
    if found.get("user_site") and found.get("prefix") != found.get("base_prefix"):
        evidence = (f"{found['user_site']} is on sys.path",)
        yield make_warning(
            NAME, "packages of ~/.local mix into this environment", evidence, ("export PYTHONNOUSERSITE=1",)
        )

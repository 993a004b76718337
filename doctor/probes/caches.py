"""HOME and the cache folders that the environment names."""

from __future__ import annotations

import os
from collections.abc import Iterator

from doctor.probes.base.context import Context
from doctor.probes.base.files import place
from doctor.probes.base.result import Result, add_facts, make_error, make_ok, make_warning

NAME = "caches"
GROUP = "tools"
SUMMARY = "HOME and the cache folders can be used"
NEEDS = ()
INSIDE = True

# Variables that name folders which SGLang and what it imports write to (srt/environ.py 0.5.23, torch, triton).
_VARIABLES = (
    *("SGLANG_CACHE_DIR", "TRITON_CACHE_DIR", "TORCHINDUCTOR_CACHE_DIR", "CUDA_CACHE_PATH", "TILELANG_CACHE_DIR"),
    *("FLASHINFER_WORKSPACE_BASE", "HF_HOME", "HF_HUB_CACHE", "XDG_CACHE_HOME", "TMPDIR", "SGLANG_DG_CACHE_DIR"),
)


def probe(context: Context) -> Iterator[Result]:
    """Judge the variables; whether the folders take a file is the disk probe's."""
    problems = [*check_home(context), *check_variables(context)]
    given = [name for name in _VARIABLES if context.environment.get(name)]
    good = make_ok(NAME, f"HOME={context.environment.get('HOME')}; {', '.join(given) or 'no cache is moved'}")
    yield from add_facts(problems or [good], ((f"env.{name}", context.environment[name]) for name in given))


def check_home(context: Context) -> Iterator[Result]:
    """Yield a HOME that is missing: caches then land in odd places or nowhere."""
    home = context.environment.get("HOME")
    fixes = ("set HOME to a folder that exists and can be written",)
    if not home:
        yield make_warning(NAME, "HOME is not set", (), fixes)
    elif not os.path.isabs(home) or not os.path.isdir(place(context.root, home)):
        yield make_error(NAME, f"HOME={home} is no folder: caches cannot be written", (), fixes)


def check_variables(context: Context) -> Iterator[Result]:
    """Yield relative paths and files where folders are meant."""
    for name in _VARIABLES:
        path = context.environment.get(name)
        if path and not os.path.isabs(path) and not path.startswith("~"):
            summary = f"{name}={path} is relative: it means another folder in every process's working folder"
            yield make_warning(NAME, summary, (), (f"export {name}={os.path.abspath(path)}",))
        elif path and os.path.isfile(place(context.root, path)):
            yield make_error(NAME, f"{name}={path} is a file, not a folder", (), (f"unset {name}",))

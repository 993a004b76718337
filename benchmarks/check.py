"""Compare `doctor check` with env-doctor, cuda-doctor and torch.utils.collect_env: start-up and full check.

Usage: python benchmarks/check.py [--peers VENV] [--torch PYTHON] [--runs 7]

`--peers` is a virtual environment with `pip install env-doctor cuda-doctor`, `--torch` a Python of the same version
that can import torch; the peers look at the interpreter that runs them, so they get its packages on PYTHONPATH, and all
programs then look at one torch. All run alternately, on the same machine and in the same minute; the median and the
best wall time are printed in milliseconds. What is not installed is skipped with a message.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple


class Program(NamedTuple):
    """A program to be timed, twice: its start-up and its full check."""

    name: str
    start: tuple[str, ...]
    full: tuple[str, ...]
    environment: Mapping[str, str] = {}


def main() -> int:
    """Measure and print."""
    options = parse()
    programs = list(list_programs(options.peers, options.torch))
    times: dict[tuple[str, str], list[float]] = {}
    for _ in range(options.runs):
        for program in programs:
            for kind, command in (("start", program.start), ("full", program.full)):
                if command:
                    times.setdefault((program.name, kind), []).append(measure(command, program.environment))
    print_table(programs, times)
    return 0


def parse() -> argparse.Namespace:
    """Read the arguments."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peers", default="")
    parser.add_argument("--torch", default="")
    parser.add_argument("--runs", type=int, default=7)
    return parser.parse_args()


def list_programs(peers: str, torch: str) -> Iterator[Program]:
    """Yield the doctor and what can be compared with it here."""
    doctor = [sys.executable, "-m", "doctor"]
    where = ["--python", torch or os.path.join(peers, "bin", "python")] if torch or peers else []
    yield Program("doctor", (*doctor, "--help"), (*doctor, "check", *where))
    shared = {"PYTHONPATH": find_packages(torch)} if torch else {}
    for name, verb in (("env-doctor", "check"), ("cuda-doctor", "diagnose")):
        path = os.path.join(peers, "bin", name)
        if peers and os.access(path, os.X_OK):
            yield Program(name, (path, "--help"), (path, verb), shared)
        else:
            print(f"skipped {name}: not in --peers {peers or '(not given)'}", file=sys.stderr)
    python = torch or sys.executable
    if can_import_torch(python):
        yield Program("collect_env", (), (python, "-m", "torch.utils.collect_env"))
    else:
        print(f"skipped torch.utils.collect_env: {python} has no torch", file=sys.stderr)


def find_packages(python: str) -> str:
    """Return the folder of an interpreter's packages."""
    text = "import sysconfig; print(sysconfig.get_paths()['purelib'])"
    return subprocess.run([python, "-c", text], check=True, capture_output=True, text=True).stdout.strip()


def can_import_torch(python: str) -> bool:
    """Tell whether a Python has torch."""
    text = "import importlib.util, sys; sys.exit(importlib.util.find_spec('torch') is None)"
    return subprocess.run([python, "-c", text], check=False).returncode == 0


def measure(command: Sequence[str], more: Mapping[str, str]) -> float:
    """Return the wall time of a command in milliseconds; compiled bytecode may be kept, as at a user's."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"} | dict(more)
    begin = time.perf_counter()
    subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False, env=environment)
    return (time.perf_counter() - begin) * 1000


def print_table(programs: Sequence[Program], times: dict[tuple[str, str], list[float]]) -> None:
    """Print median and best of each."""
    print(f"{'ms':<14}{'start median':>14}{'best':>8}{'check median':>14}{'best':>8}")
    for program in programs:
        cells = [times.get((program.name, kind), []) for kind in ("start", "full")]
        row = "".join(
            f"{statistics.median(cell):>14.0f}{min(cell):>8.0f}" if cell else f"{'-':>14}{'-':>8}" for cell in cells
        )
        print(f"{program.name:<14}{row}")


if __name__ == "__main__":
    sys.exit(main())

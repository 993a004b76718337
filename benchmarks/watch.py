"""Measure what `doctor run` costs: pass-through against `cat`, processor time and memory at 1,000 lines a second.

Usage: python benchmarks/watch.py [--megabytes 2000] [--seconds 30]

The lines are batch and access lines as a busy SGLang prints them. Processor time and memory are those of the doctor's
two processes (the watchdog and its guardian), read from /proc at the end, without those of the program it runs.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LINE = (
    "[2026-04-24 06:29:19 TP0] Decode batch, #running-req: 16, #token: 2723, token usage: 0.03, cuda graph: True, "
    "gen throughput (token/s): 1234.56, #queue-req: 0\n"
)
FLOOD = """
import os, sys
line = sys.argv[1].encode()
block = line * (1048576 // len(line))
for _ in range(int(sys.argv[2])):
    os.write(1, block)
"""
STEADY = """
import os, sys, time
line = sys.argv[1].encode()
begin = time.monotonic()
for number in range(int(float(sys.argv[2]) * 20)):
    os.write(1, line * 50)
    time.sleep(max(0.0, begin + (number + 1) / 20 - time.monotonic()))
time.sleep(5)
"""
_TICKS = os.sysconf("SC_CLK_TCK")


def build_doctor(*command: str) -> list[str]:
    """Give the command line of a doctor that writes nothing but the output."""
    return [sys.executable, "-m", "doctor", "run", "--no-check", "--restart", "never", "--", *command]


def measure_flood(megabytes: int) -> tuple[float, float]:
    """Give MB/s through `cat` and through the doctor, both into /dev/null over a pipe."""
    program = [sys.executable, "-c", FLOOD, LINE, str(megabytes)]
    with subprocess.Popen(program, stdout=subprocess.PIPE) as source:
        begin = time.perf_counter()
        subprocess.run(["cat"], stdin=source.stdout, stdout=subprocess.DEVNULL, check=True)
        plain = time.perf_counter() - begin
    begin = time.perf_counter()
    subprocess.run(build_doctor(*program), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True, cwd=ROOT)
    return megabytes / plain, megabytes / (time.perf_counter() - begin)


def measure_steady(seconds: float) -> tuple[float, float]:
    """Give the share of one core in per cent, and the resident MB, at 1,000 lines a second."""
    command = build_doctor(sys.executable, "-c", STEADY, LINE, str(seconds))
    with tempfile.TemporaryFile() as errors:
        doctor = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=errors, cwd=ROOT)
        time.sleep(seconds / 3)
        pids = [doctor.pid, *find_guardian(doctor.pid)]
        before, begin = sum(map(read_cpu, pids)), time.monotonic()
        time.sleep(seconds / 2)
        used, spent = sum(map(read_cpu, pids)) - before, time.monotonic() - begin
        memory = sum(map(read_private, pids))
        doctor.wait()
    return 100 * used / spent, memory


def find_guardian(pid: int) -> list[int]:
    """List children that run the doctor's own command line: the forked guardian."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    own = Path(f"/proc/{pid}/cmdline").read_bytes()
    return [int(child) for child in children if Path(f"/proc/{child}/cmdline").read_bytes() == own]


def read_cpu(pid: int) -> float:
    """Give the seconds of processor time."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


def read_private(pid: int) -> float:
    """Give the proportional resident size in MB: pages shared with the guardian count once."""
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) / 1000
    return 0.0


def main() -> None:
    """Print the three figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--megabytes", type=int, default=2000)
    parser.add_argument("--seconds", type=float, default=30.0)
    options = parser.parse_args()
    plain, ours = measure_flood(options.megabytes)
    print(f"pass-through: {ours:.0f} MB/s (cat: {plain:.0f} MB/s)")
    share, memory = measure_steady(options.seconds)
    print(f"at 1,000 lines/s: {share:.2f} % of one core, {memory:.0f} MB resident")


if __name__ == "__main__":
    main()

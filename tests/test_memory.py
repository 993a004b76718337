"""Peak memory stays under 80 MB, whatever the log holds."""

import gzip
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.helpers import FIXTURES, ROOT

MOST_MB = 80
MEASURE = """
import resource, subprocess, sys
code = subprocess.run([sys.executable, "-m", "doctor", "explain", "--format", "json", *sys.argv[1:]], stdout=subprocess.DEVNULL).returncode
print(code, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss // 1024)
"""
STAMP = b"[2026-04-24 06:29:19 TP0] "
TRACE = (
    STAMP
    + b"Scheduler hit an exception: Traceback (most recent call last):\n"
    + b'  File "/sgl/a.py", line 1, in f\n    f()\n' * 30
    + b"ValueError: number %d\n"
)


def measure(path: Path) -> tuple[int, int]:
    """Explain a file in a child of a child, so that nothing else is counted; (exit code, peak in MB)."""
    done = subprocess.run([sys.executable, "-c", MEASURE, str(path)], capture_output=True, check=True, cwd=ROOT)
    code, peak = done.stdout.split()
    return int(code), int(peak)


def repeat(line: bytes, count: int) -> Iterator[bytes]:
    block = line * 1000
    return (block for _ in range(count // 1000))


LOGS: dict[str, Callable[[], Iterator[bytes]]] = {
    "200 MB of routine": lambda: repeat(
        STAMP
        + b"Decode batch, #running-req: 16, #token: 2723, token usage: 0.00, cuda graph: True, gen throughput (token/s): 531.33, #queue-req: 0\n",
        1_320_000,
    ),
    "a line of 20 MB": lambda: iter([STAMP, b"x" * 20_000_000, b"\n"]),
    "a progress bar of 20 MB": lambda: repeat(b"\r 50%|##### | 1/2 [00:01<00:01,  1.00it/s]", 500_000),
    "distinct error lines": lambda: (STAMP + b"ValueError: distinct %d\n" % number for number in range(20_000)),
    "distinct processes": lambda: (b"(Actor pid=%d) ValueError: distinct\n" % number for number in range(20_000)),
    "distinct ranks": lambda: (
        b"[2026-04-24 06:29:19 TP%d] Load weight begin. avail mem=1.0 GB\n" % number for number in range(20_000)
    ),
    "tracebacks": lambda: (TRACE % number for number in range(2000)),
    "exceptions with long messages": lambda: (STAMP + b"ValueError: " + b"x" * 200_000 + b"\n" for _ in range(400)),
    "long lines that belong together": lambda: (b"  " + b"y" * 500_000 + b"\n" for _ in range(100)),
    "lines with one keyword a million times": lambda: (STAMP + b"Error" * 200_000 + b"\n" for _ in range(20)),
    "dumps": lambda: (
        STAMP + b"server_args=ServerArgs(model_path='/m', " + b"field='some value', " * 700 + b"tp_size=1)\n"
        for _ in range(300)
    ),
    "access lines that fail": lambda: (
        b'INFO:     127.0.0.1:1 - "GET /health/%d HTTP/1.1" 503 Service Unavailable\n' % number
        for number in range(20_000)
    ),
    "newlines": lambda: repeat(b"\n", 1_000_000),
    "facts": lambda: (
        STAMP + b"torch==2.9.1 CUDA_VISIBLE_DEVICES=%d %s\n" % (number, b"z" * 3000) for number in range(5000)
    ),
}


@pytest.mark.parametrize("name", LOGS)
def test_peak_memory_is_bounded(name: str, tmp_path: Path) -> None:
    path = tmp_path / "server.log"
    with path.open("wb") as stream:
        stream.writelines(LOGS[name]())
    code, peak = measure(path)
    path.unlink()
    assert code in (0, 1)
    assert peak < MOST_MB


def test_compressed_bomb_is_bounded(tmp_path: Path) -> None:
    path = tmp_path / "server.log.gz"
    with gzip.open(path, "wb", compresslevel=1) as stream:
        stream.writelines(bytes(1_000_000) for _ in range(200))
    code, peak = measure(path)
    assert code in (0, 1)
    assert peak < MOST_MB


def test_many_small_files_are_bounded(tmp_path: Path) -> None:
    for number in range(2000):
        (tmp_path / f"{number}.log").write_bytes(b"[2026-04-24 06:29:19] Load weight begin. avail mem=1.0 GB\n")
    code, peak = measure(tmp_path)
    assert code == 0
    assert peak < MOST_MB


def test_peak_of_a_real_log_is_small() -> None:
    assert measure(FIXTURES / "recordings/h200/healthy.log")[1] < MOST_MB

"""Compare `doctor explain` with `rg -F -f` on generated logs: same file, same keywords, same run.

Usage: python benchmarks/explain.py [--megabytes 1000] [--runs 5] [--rules 200]

Three logs: a mixed one (batch lines, access lines, server_args dumps, request dumps, tracebacks), a healthy one, and
one with request dumps (60 % of its bytes). Rules are padded with synthetic ones up to --rules. Prints MB/s of both
(best of the runs, interleaved), their ratio, and the doctor's peak memory. Cold starts are measured at the end.
"""

from __future__ import annotations

import argparse
import os
import random
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from doctor.diagnosis.load import load_pack

_RULE = """\
id = "SYN{number:03}"
name = "synthetic-{number:03}"
title = "Synthetic failure {number}"
role = "root"
cause = "A synthetic failure."
why = "Its message was printed."
[[match]]
event = "line"
keywords = ["{keyword}"]
pattern = '{keyword} \\S{{1,80}} failed'
[[fix]]
title = "Nothing to do"
safety = "manual"
[page]
means = "Nothing."
happens = "In benchmarks only."
look_alikes = "None."
wrong_when = "Always."
references = ["benchmarks/explain.py"]
[[example]]
name = "fires"
fires = true
log = '''
[2026-01-01 00:00:00] {keyword} x failed
'''
[[example]]
name = "near miss"
fires = false
log = '''
[2026-01-01 00:00:00] {keyword} x went well
'''
"""
_TRACEBACK = """\
[{time} TP{rank}] [http_server] Error: request {number} was refused
Traceback (most recent call last):
  File "/opt/sglang/python/sglang/srt/entrypoints/http_server.py", line 990, in generate_request
    ret = await tokenizer_manager.generate_request(obj, request).__anext__()
  File "/opt/sglang/python/sglang/srt/managers/tokenizer_manager.py", line 712, in generate_request
    tokenized_obj = await self._tokenize_one_request(obj)
ValueError: The input (4002 tokens) is longer than the model's context length (2048 tokens).
"""


def main() -> int:
    """Generate, measure, print."""
    options = _parse()
    if not shutil.which("rg"):
        print("ripgrep (rg) is not installed: it is the peer of this benchmark", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory() as folder:
        rules, keywords = write_rules(Path(folder), options.rules)
        print(f"{'log':<10}{'MB':>6}{'rg MB/s':>10}{'doctor MB/s':>13}{'ratio':>8}{'peak MB':>9}")
        for name, lines in (("mixed", mixed_lines), ("healthy", healthy_lines), ("requests", request_lines)):
            log = write_log(Path(folder) / f"{name}.log", lines, options.megabytes * 1_000_000)
            measure(name, log, rules, keywords, options.runs)
        measure_start(Path(folder))
    return 0


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--megabytes", type=int, default=1000)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--rules", type=int, default=200)
    return parser.parse_args()


def write_rules(folder: Path, count: int) -> tuple[Path | None, Path]:
    """Write synthetic rules up to `count` in all, and the file with every keyword for ripgrep."""
    shipped = load_pack()
    texts = [max(match.keywords, key=len) for rule in shipped for match in rule.matches if match.keywords]
    extra = folder / "rules" / "synthetic"
    extra.mkdir(parents=True)
    draw = random.Random(7)
    for number in range(max(0, count - len(shipped))):
        keyword = f"component_{draw.randrange(10**9)} of stage {number} has"
        texts.append(keyword)
        (extra / f"{number:03}.toml").write_text(_RULE.format(number=number, keyword=keyword))
    keywords = folder / "keywords.txt"
    keywords.write_text("\n".join(dict.fromkeys(texts)) + "\n")
    return (extra if any(extra.iterdir()) else None), keywords


def write_log(path: Path, lines: Callable[[random.Random, int], str], size: int) -> Path:
    """Write a log of about `size` bytes; the same bytes at every run."""
    draw, written, number = random.Random(11), 0, 0
    with path.open("w") as stream:
        stream.write(start_lines())
        while written < size:
            written += stream.write(lines(draw, number))
            number += 1
    return path


def start_lines() -> str:
    """A start like that of a real server, with a 10 kB dump."""
    fields = ", ".join(f"field_{number}='value {number}'" for number in range(400))
    return (
        f"[2026-01-01 00:00:00] server_args=ServerArgs(model_path='/models/m', tp_size=8, {fields})\n"
        "[2026-01-01 00:00:09 TP0] Init torch distributed begin.\n"
        "[2026-01-01 00:00:12 TP0] Load weight begin. avail mem=78.53 GB\n"
        "[2026-01-01 00:01:12 TP0] Load weight end. elapsed=60.0 s, type=M, avail mem=60.00 GB, mem usage=18.00 GB.\n"
        "[2026-01-01 00:01:13 TP0] Memory pool end. avail mem=10.00 GB\n"
        "[2026-01-01 00:01:20] INFO:     Uvicorn running on http://127.0.0.1:30000 (Press CTRL+C to quit)\n"
        "[2026-01-01 00:01:23] The server is fired up and ready to roll!\n"
    )


def _time(number: int) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(1767225700 + number // 40))


def healthy_lines(draw: random.Random, number: int) -> str:
    """One line in the shares of a busy server: 73 % batch, 25 % access, 1 % other."""
    kind, stamp = draw.random(), _time(number)
    if kind < 0.73:
        running, tokens = draw.randrange(1, 64), draw.randrange(1000, 90000)
        return (
            f"[{stamp} TP0] Decode batch, #running-req: {running}, #token: {tokens}, token usage: {tokens / 1e5:.2f}, "
            f"cuda graph: True, gen throughput (token/s): {running * 80.0:.2f}, #queue-req: 0\n"
        )
    if kind < 0.99:
        client = f"10.0.0.{number % 250}:{draw.randrange(1024, 65000)}"
        return f'[{stamp}] INFO:     {client} - "POST /v1/chat/completions HTTP/1.1" 200 OK\n'
    return f"[{stamp} TP0] Cache flushed successfully for session {number}\n"


def mixed_lines(draw: random.Random, number: int) -> str:
    """The healthy mix with a request dump every 2,000 lines, a traceback every 50,000 and a restart every 500,000."""
    if number % 50_000 == 49_999:
        return _TRACEBACK.format(time=_time(number), rank=0, number=number)
    if number % 500_000 == 499_999:
        return start_lines()
    return request_dump(draw, number) if number % 2_000 == 1_999 else healthy_lines(draw, number)


def request_lines(draw: random.Random, number: int) -> str:
    """60 % of the bytes in request dumps of 2 to 8 kB."""
    return request_dump(draw, number) if number % 22 == 0 else healthy_lines(draw, number)


def request_dump(draw: random.Random, number: int) -> str:
    """A logged request whose prompt talks about errors."""
    words = " ".join(
        draw.choice(("CUDA out of memory", "the", "model", "error", "Traceback", "of")) for _ in range(700)
    )
    return (
        f"[{_time(number)}] Receive: obj=GenerateReqInput(rid='{number:032x}', text='{words}', sampling_params={{}})\n"
    )


def measure(name: str, log: Path, rules: Path | None, keywords: Path, runs: int) -> None:
    """Run both programs alternately and print their best times."""
    megabytes = log.stat().st_size / 1e6
    rg = ["rg", "-j1", "-c", "--no-mmap", "-F", "-f", str(keywords), str(log)]
    doctor = [
        sys.executable,
        "-m",
        "doctor",
        "explain",
        str(log),
        "--format",
        "json",
        *(["--rules", str(rules)] if rules else []),
    ]
    base = [*doctor[:4], os.devnull, *doctor[5:]]
    best: dict[str, float] = {}
    peak = 0.0
    for _ in range(runs):
        for label, command in (("rg", rg), ("doctor", doctor), ("base", base)):
            seconds, memory = run(command)
            best[label] = min(best.get(label, seconds), seconds)
            peak = max(peak, memory if label == "doctor" else 0)
    # reading and linting the synthetic rule files is not part of the product's path: shipped rules come from the pack
    own = best["doctor"] - (best["base"] - plain_start()) if rules else best["doctor"]
    speeds = f"{megabytes / best['rg']:>10.0f}{megabytes / own:>13.0f}{best['rg'] / own:>8.2f}"
    print(f"{name:<10}{megabytes:>6.0f}{speeds}{peak:>9.0f}")


def plain_start() -> float:
    """Seconds of an explain of nothing with the shipped rules only."""
    return min(run([sys.executable, "-m", "doctor", "explain", os.devnull, "--format", "json"])[0] for _ in range(3))


def run(command: list[str]) -> tuple[float, float]:
    """Give CPU seconds (user + system) and peak memory in MB of a command."""
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment())
    _, _, usage = os.wait4(process.pid, 0)
    process.returncode = 0
    return _seconds(usage), usage.ru_maxrss / 1000


def environment() -> dict[str, str]:
    """The environment of a user: compiled bytecode may be written and is found at the next start."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}


def _seconds(usage: resource.struct_rusage) -> float:
    return usage.ru_utime + usage.ru_stime


def measure_start(folder: Path) -> None:
    """Print wall times of cold starts, best of 15, interleaved."""
    log = write_log(folder / "small.log", healthy_lines, 50_000)
    commands = {
        "python -c pass": [sys.executable, "-c", "pass"],
        "doctor --help": [str(Path(sys.executable).with_name("doctor")), "--help"],
        "doctor explain, 50 kB": [str(Path(sys.executable).with_name("doctor")), "explain", str(log)],
    }
    best = dict.fromkeys(commands, float("inf"))
    for name, command in list(_interleave(commands, 15)):
        begin = time.perf_counter()
        subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False, env=environment())
        best[name] = min(best[name], time.perf_counter() - begin)
    for name, seconds in best.items():
        print(f"{name:<24}{seconds * 1000:>8.1f} ms")


def _interleave(commands: dict[str, list[str]], times: int) -> Iterator[tuple[str, list[str]]]:
    for _ in range(times):
        yield from commands.items()


if __name__ == "__main__":
    sys.exit(main())

"""Provoke faults on a GPU machine and compare `doctor check` before the launch with SGLang's own failure.

Usage: python tools/check_faults.py OUT [FAULT...]     (a python with SGLang; one NVIDIA GPU; loopback only)
Writes OUT/check.md: fault, seconds and words of the check, seconds until SGLang failed and its last line.
"""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(Path(__file__).resolve().parent)]

from measure_memory import BASE, llama, moe, write_model

PORT = 31500
SERVER_SECONDS = 75
_FAILED = re.compile(
    r"^(?:\[[^\]]*\] )?(?:(?:[\w.]+\.)?\w*(?:Error|Exception)\b.{0,160}|ERROR: .{0,160}"
    r"|.{0,40}: error: .{0,120}|Fatal Python error.{0,80})",
    re.MULTILINE,
)


class Fault(NamedTuple):
    """Flags and environment that provoke a fault, what holds during it, and the probe that must find it."""

    flags: tuple[str, ...]
    env: dict[str, str]
    probe: str
    model: str = "tiny"
    dummy: bool = True
    during: Callable[[], AbstractContextManager[object]] = nullcontext


@contextmanager
def hold_gpu() -> Iterator[None]:
    """Another process holds 125 GiB of the GPU."""
    take = "x = torch.empty(125 * 2**30, dtype=torch.uint8, device='cuda')"
    code = f"import torch, time; {take}; print('held', flush=True); time.sleep(300)"
    holder = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
    try:
        if holder.stdout:
            holder.stdout.readline()
        yield
    finally:
        holder.kill()
        holder.wait()


@contextmanager
def hold_port() -> Iterator[None]:
    """Another program listens on the port."""
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(("127.0.0.1", PORT))
        listener.listen()
        yield


FAULTS: dict[str, Fault] = {
    "GPUs that do not exist": Fault((), {"CUDA_VISIBLE_DEVICES": "4,5,6,7"}, "visible-devices"),
    "tp above the GPUs": Fault(("--tp", "2"), {}, "visible-devices"),
    "GPU held by a process": Fault((), {}, "gpu-processes", model="dense8b", during=hold_gpu),
    "unknown allocator key": Fault((), {"PYTORCH_ALLOC_CONF": "pinned_max_round_threshold_mb:16"}, "allocator"),
    "missing kernel library": Fault(("--attention-backend", "fa3"), {}, "imports"),
    "interface that does not exist": Fault((), {"GLOO_SOCKET_IFNAME": "nope0"}, "interfaces"),
    "port taken": Fault((), {}, "ports", during=hold_port),
    "context too long": Fault(("--context-length", "1000000"), {}, "context-length"),
    "offload on the wrong architecture": Fault(
        ("--offload-group-size", "1", "--disable-cuda-graph"), {}, "fit", model="moe16"
    ),
    "misspelt flag": Fault(("--mem-fraction-statc", "0.5"), {}, "command"),
    "no weights in the folder": Fault((), {}, "model-files", dummy=False),
    "weights larger than the GPU": Fault((), {}, "fit", model="dense90b"),
}


def main(arguments: list[str]) -> int:
    """Run the named faults, or all."""
    out = Path(arguments[0])
    out.mkdir(parents=True, exist_ok=True)
    models = {
        "tiny": write_model(out / "models" / "tiny", llama(256, 512, 2, 4, 2)),
        "dense8b": write_model(out / "models" / "dense8b", llama(4096, 14336, 32, 32, 8)),
        "moe16": write_model(out / "models" / "moe16", moe(16)),
        "dense90b": write_model(out / "models" / "dense90b", llama(8192, 28672, 90, 64, 8)),
    }
    rows = ["| fault | check, s | what it said | SGLang, s | its last line |", "|--|--|--|--|--|"]
    for name in arguments[1:] or list(FAULTS):
        fault = FAULTS[name]
        command = build_command(fault, models[fault.model])
        with fault.during():
            seconds, said = run_check(command, fault)
            failed, line = run_server(command, fault, out / "server.log")
        rows.append(f"| {name} | {seconds:.1f} | {said} | {failed} | `{line}` |")
        print(rows[-1], flush=True)
        (out / "check.md").write_text("\n".join(rows) + "\n")
    return 0


def build_command(fault: Fault, model: Path) -> list[str]:
    """Write the launch command of a fault."""
    base = [word for word in BASE if fault.dummy or word not in ("--load-format", "dummy")]
    if "--attention-backend" in fault.flags:
        base = base[2:]
    place = ["--model-path", str(model), "--host", "127.0.0.1", "--port", str(PORT)]
    return [sys.executable, "-m", "sglang.launch_server", *place, *base, *fault.flags]


def run_check(command: list[str], fault: Fault) -> tuple[float, str]:
    """Give the seconds of `doctor check` and the summary of the expected probe, or what it found instead."""
    begin = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-m", "doctor", "check", "--format", "json", "--", *command],
        cwd=ROOT, env={**os.environ, **fault.env}, capture_output=True, text=True, timeout=90, check=False,
    )  # fmt: skip
    seconds = time.monotonic() - begin
    try:
        results = json.loads(done.stdout)["results"]
    except (ValueError, KeyError):
        return seconds, f"no answer: {done.stderr[-200:]}"
    problems = [row for row in results if row["status"] == "problem"]
    found = [row for row in problems if row["probe"] == fault.probe]
    return seconds, describe(found) if found else f"MISSED; said: {describe(problems)}"


def describe(rows: list[dict[str, Any]]) -> str:
    """Join the summaries of results."""
    return "; ".join(f"{row['summary']} [{row['probe']}]" for row in rows)[:300].replace("|", "/")


def run_server(command: list[str], fault: Fault, log: Path) -> tuple[str, str]:
    """Start the real server; give the seconds until it failed (or that it did not) and its last error line."""
    begin, state = time.monotonic(), "still running"
    environment = {**os.environ, **fault.env, "HF_HUB_OFFLINE": "1", "PYTHONUNBUFFERED": "1"}
    with log.open("wb") as stream:
        server = subprocess.Popen(
            command, stdout=stream, stderr=subprocess.STDOUT, env=environment, start_new_session=True
        )
        while time.monotonic() - begin < SERVER_SECONDS:
            time.sleep(0.25)
            text = log.read_text(errors="replace")
            if server.poll() is not None or "address already in use" in text:
                state = f"{time.monotonic() - begin:.1f}"
                break
            if "fired up" in text:
                state = f"ready after {time.monotonic() - begin:.1f}"
                break
        if server.poll() is None:
            os.killpg(server.pid, signal.SIGKILL)
        server.wait()
    time.sleep(2)
    lines = _FAILED.findall(log.read_text(errors="replace"))
    return state, lines[-1].strip().replace("|", "/")[:160] if lines else ""


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

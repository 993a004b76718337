"""Provoke faults on a GPU machine: what `doctor check` says of each before the launch, and when SGLang itself fails.

Usage: python3 tools/check_faults.py OUT --model DIR --python PY [--only a,b] [--server-seconds 100] [--check-only]

`--model` is a tiny model with a tokenizer, `--python` a Python with SGLang 0.5.15.post1 (an environment variable
PYTHONPATH is handed on). Larger models are the tiny one's tokenizer with another config.json and dummy weights.
The doctor runs from this checkout with the Python that runs this file. Every fault is made for real: variables,
limits, a socket that listens, a process that holds the GPU. The control case `healthy` must give no error.
OUT gets each server's log, each check as JSON, and faults.md and faults.json after every case.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import resource
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
PORT = 31500
# The recording machine's kernel package has no FlashAttention 3: everything but that must run on it.
BASE = (
    *("--port", str(PORT), "--host", "127.0.0.1", "--attention-backend", "triton"),
    *("--sampling-backend", "pytorch", "--grammar-backend", "none"),
)
SMALL = ("--mem-fraction-static", "0.2")
DUMMY = ("--load-format", "dummy")
_FAILED = re.compile(
    r"^(?:\w+\.)*\w*(?:Error|Exception)\b.*|.*address already in use.*|.*: error: .*|.*Received sigquit.*", re.MULTILINE
)
_LAST = re.compile(r"^(?:\w+\.)*\w*(?:Error|Exception)\b.*", re.MULTILINE)
_HOLD = (
    "import sys, time, torch; free, total = torch.cuda.mem_get_info();"
    "block = torch.empty(int(total * 0.9), dtype=torch.uint8, device='cuda');"
    "print('held', flush=True); time.sleep(900)"
)


class Case(NamedTuple):
    """A fault: the probe that should find it ("" for none), arguments, variables, and what has to be held."""

    name: str
    probe: str
    arguments: tuple[str, ...]
    environment: Mapping[str, str] = {}
    model: str = "tiny"
    limit: int = 0
    hold: str = ""


class Setting(NamedTuple):
    """Where things are."""

    out: str
    model: str
    python: str
    seconds: float
    gpus: int


def list_cases(gpus: int) -> Iterator[Case]:
    """Yield the control case and the faults; `gpus` are there."""
    nowhere = {"CUDA_VISIBLE_DEVICES": "40,41"}
    names = {"NCCL_SOCKET_IFNAME": "bond7", "GLOO_SOCKET_IFNAME": "bond7"}
    key = {"PYTORCH_ALLOC_CONF": "pinned_max_round_threshold_mb:16"}
    groups = ("--offload-group-size", "1", "--offload-num-in-group", "1", "--disable-cuda-graph")
    yield Case("healthy", "", SMALL)
    yield Case("wrong-visible-devices", "visible-devices", SMALL, nowhere)
    yield Case("tp-above-devices", "visible-devices", (*SMALL, "--tp", str(2 * gpus)))
    yield Case("unknown-allocator-key", "allocator", (*SMALL, "--cpu-offload-gb", "1"), key)
    yield Case("missing-kernel-library", "imports", (*SMALL, "--attention-backend", "fa3"))
    yield Case("bogus-interface", "interfaces", (*SMALL, "--tp", str(min(2, gpus))), names)
    yield Case("port-taken", "ports", SMALL, hold="port")
    yield Case("few-open-files", "limits", SMALL, limit=64)
    yield Case("offload-wrong-architecture", "fit", (*SMALL, *DUMMY, *groups), model="moe")
    yield Case("context-too-long", "context-length", (*SMALL, "--context-length", "1048576"))
    yield Case("gpu-held", "gpu-processes", DUMMY, model="dense8b", hold="gpu")
    yield Case("model-too-large", "fit", DUMMY, model="dense90b")
    yield Case("wrong-backend", "backends", (*SMALL, "--attention-backend", "trtllm_mla"))
    yield Case("hidden-devices", "visible-devices", SMALL, {"CUDA_VISIBLE_DEVICES": ""})
    yield Case("missing-model", "model-files", SMALL, model="/nonexistent/model")
    yield Case("dead-proxy", "proxy", SMALL, {"HTTP_PROXY": "http://127.0.0.1:9", "http_proxy": "http://127.0.0.1:9"})


def main() -> int:
    """Run the cases and write the table after each."""
    options = parse()
    os.makedirs(options.out, exist_ok=True)
    python = shutil.which(options.python) or options.python
    setting = Setting(options.out, options.model, python, options.server_seconds, count_gpus())
    wanted = set(options.only.split(",")) if options.only else None
    rows = []
    for case in list_cases(setting.gpus):
        if wanted is None or case.name in wanted:
            rows.append(run_case(case, setting, check_only=options.check_only))
            write_table(setting.out, rows)
            print(json.dumps(rows[-1]), flush=True)
    return int(not all(row["found"] for row in rows))


def parse() -> argparse.Namespace:
    """Read the arguments."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out")
    parser.add_argument("--model", required=True)
    parser.add_argument("--python", required=True)
    parser.add_argument("--only", default="")
    parser.add_argument("--server-seconds", type=float, default=100.0)
    parser.add_argument("--check-only", action="store_true")
    return parser.parse_args()


def count_gpus() -> int:
    """Count the GPUs of this machine."""
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        done = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True, timeout=20, check=True)
        return max(1, done.stdout.count("GPU "))
    return 1


def run_case(case: Case, setting: Setting, *, check_only: bool) -> dict[str, Any]:
    """Check, then start the real server, both inside the fault."""
    words = [f"{name}={value}" for name, value in case.environment.items()]
    model = find_model(case.model, setting)
    command = [setting.python, "-m", "sglang.launch_server", "--model-path", model, *merge(case.arguments)]
    with hold(case, setting):
        row: dict[str, Any] = {"case": case.name, **check(case, [*words, *command], setting)}
        if not check_only:
            row.update(serve(case, command, setting))
    return row


def merge(arguments: tuple[str, ...]) -> list[str]:
    """Return the base arguments with those of the case in their place; a repeated flag would not be a fault here."""
    base = list(BASE)
    for at in range(len(base) - 2, -1, -2):
        if base[at] in arguments:
            del base[at : at + 2]
    return [*base, *arguments]


@contextlib.contextmanager
def hold(case: Case, setting: Setting) -> Iterator[None]:
    """Hold the port or the GPU while a case runs."""
    with contextlib.ExitStack() as stack:
        if case.hold == "port":
            listener = stack.enter_context(socket.socket())
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(("127.0.0.1", PORT))
            listener.listen()
        elif case.hold == "gpu":
            holder = subprocess.Popen([setting.python, "-c", _HOLD], stdout=subprocess.PIPE)
            stack.callback(holder.wait)
            stack.callback(holder.kill)
            if holder.stdout is not None:
                holder.stdout.readline()
        yield


def limit_files(case: Case) -> Callable[[], None] | None:
    """Return what a child does first to get the case's limit on open files."""
    if not case.limit:
        return None
    return lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (case.limit, case.limit))


def check(case: Case, launch: list[str], setting: Setting) -> dict[str, Any]:
    """Run the doctor's check and say what it found."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, [ROOT, os.environ.get("PYTHONPATH")]))}
    command = [sys.executable, "-m", "doctor", "check", "--format", "json", "--", *launch]
    begin = time.monotonic()
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env=environment,
        preexec_fn=limit_files(case),
    )
    seconds = time.monotonic() - begin
    with open(os.path.join(setting.out, f"{case.name}.check.json"), "w", encoding="utf-8") as stream:
        stream.write(done.stdout or done.stderr)
    try:
        data = json.loads(done.stdout)
    except ValueError:
        return {"found": False, "check_seconds": round(seconds, 1), "check_says": done.stderr[-300:]}
    problems = [
        row for row in data["results"] if row["status"] == "problem" and row["severity"] in ("error", "warning")
    ]
    errors = [row["summary"] for row in problems if row["severity"] == "error"]
    mine = [row["summary"] for row in problems if row["probe"] == case.probe]
    return {
        "found": bool(mine) if case.probe else not errors,
        "check_seconds": round(seconds, 1),
        "check_says": mine[0] if mine else "; ".join(errors)[:300] or "nothing wrong",
        "other_errors": [summary for summary in errors if summary not in mine[:1]],
        "corrected": data["command"]["corrected"],
    }


def serve(case: Case, command: list[str], setting: Setting) -> dict[str, Any]:
    """Start the real server and wait until it is ready, has failed, or time is up."""
    path = os.path.join(setting.out, f"{case.name}.log")
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", "PYTHONUNBUFFERED": "1", **case.environment}
    begin = time.monotonic()
    with open(path, "wb") as log:
        process = subprocess.Popen(
            command,
            stdout=log,
            stderr=subprocess.STDOUT,
            env=environment,
            start_new_session=True,
            preexec_fn=limit_files(case),  # noqa: PLW1509 - this program has one thread
        )
        try:
            state = wait(process, path, begin + setting.seconds, is_fault=bool(case.probe))
            seconds = time.monotonic() - begin
            time.sleep(2 if state == "failed" else 0)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    return {"server": state, "server_seconds": round(seconds, 1), "server_says": find_last(path)}


def wait(process: subprocess.Popen[bytes], path: str, deadline: float, *, is_fault: bool) -> str:
    """Return `ready`, `failed` or `silent`; a log line of a failure counts like the end of the process in a fault."""
    while time.monotonic() < deadline:
        text = read(path)
        if "fired up" in text:
            return "ready"
        # torchcodec's failure is printed by healthy servers, too
        lines = [line for line in text.splitlines() if "Ignore import error" not in line]
        is_said = any(_FAILED.match(line) for line in lines if "ibtorchcodec" not in line)
        if process.poll() is not None or (is_fault and is_said):
            return "failed"
        time.sleep(0.2)
    return "silent"


def read(path: str) -> str:
    """Return the end of a log."""
    with open(path, "rb") as stream:
        stream.seek(0, os.SEEK_END)
        stream.seek(max(0, stream.tell() - (1 << 20)))
        return stream.read().decode("utf-8", "replace")


def find_last(path: str) -> str:
    """Return the last line that names an error, else the last line."""
    text = read(path)
    found = _LAST.findall(text) or [line for line in text.splitlines() if line.strip()]
    return found[-1][:240] if found else ""


def find_model(name: str, setting: Setting) -> str:
    """Return a model's folder: the tiny one, a path, or one that is made here with dummy weights in mind."""
    if name == "tiny" or name.startswith("/"):
        return setting.model if name == "tiny" else name
    folder = os.path.join(setting.out, "models", name)
    os.makedirs(folder, exist_ok=True)
    for file in ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja", "generation_config.json"):
        source = os.path.join(setting.model, file)
        if os.path.exists(source):
            shutil.copy(source, folder)
    with open(os.path.join(folder, "config.json"), "w", encoding="utf-8") as stream:
        json.dump(make_config(name), stream)
    return folder


def make_config(name: str) -> dict[str, Any]:
    """Return the config of a dense Llama of 8 or 90 layers-worth of billions, or of a small Qwen3 mixture."""
    common: dict[str, Any] = {
        "vocab_size": 1000,
        "rms_norm_eps": 1e-6,
        "dtype": "bfloat16",
        "bos_token_id": 0,
        "eos_token_id": 1,
    }
    common |= {"hidden_act": "silu", "tie_word_embeddings": False, "attention_bias": False, "rope_theta": 10000.0}
    if name == "moe":
        sizes = {"hidden_size": 2048, "intermediate_size": 6144, "num_hidden_layers": 8, "num_attention_heads": 32}
        sizes |= {"num_key_value_heads": 4, "head_dim": 128, "max_position_embeddings": 4096}
        experts: dict[str, Any] = {
            "moe_intermediate_size": 768,
            "num_experts": 64,
            "num_experts_per_tok": 8,
            "norm_topk_prob": True,
        }
        experts |= {"decoder_sparse_step": 1, "mlp_only_layers": [], "router_aux_loss_coef": 0.001}
        return {"architectures": ["Qwen3MoeForCausalLM"], "model_type": "qwen3_moe", **common, **sizes, **experts}
    large = name == "dense90b"
    sizes = {"hidden_size": 8192 if large else 4096, "intermediate_size": 28672 if large else 14336}
    sizes |= {"num_hidden_layers": 90 if large else 32, "num_attention_heads": 64 if large else 32}
    sizes |= {"num_key_value_heads": 8, "head_dim": 128, "max_position_embeddings": 4096}
    return {"architectures": ["LlamaForCausalLM"], "model_type": "llama", **common, **sizes, "mlp_bias": False}


def write_table(out: str, rows: list[dict[str, Any]]) -> None:
    """Write what was found so far."""
    with open(os.path.join(out, "faults.json"), "w", encoding="utf-8") as stream:
        json.dump(rows, stream, indent=1)
    head = ["fault", "check: seconds", "found", "check says", "SGLang: seconds", "state", "its last error"]
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    for row in rows:
        found = "yes" if row["found"] else "NO"
        cells = [row["case"], row["check_seconds"], found, row["check_says"]]
        cells += [row.get("server_seconds", "-"), row.get("server", "-"), row.get("server_says", "-")]
        lines.append("| " + " | ".join(str(cell).replace("|", "/").replace("\n", " ") for cell in cells) + " |")
    with open(os.path.join(out, "faults.md"), "w", encoding="utf-8") as stream:
        stream.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    sys.exit(main())

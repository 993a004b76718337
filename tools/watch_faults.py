"""Break real SGLang servers, each once alone and once under `doctor run`, and write down what became of them.

Usage: python3 tools/watch_faults.py OUT --python PY --model DIR [--gpu] [--quick] [--only a,b] [--lanes 4] …

`--python` is a Python with SGLang (PYTHONPATH is handed on), `--model` a tiny model with weights and a tokenizer (see
tests/e2e/make_model.py). With --gpu, faults of a GPU are made as well: memory held by another program, memory of a dead
server that is not given back, a kernel that never ends, pinned offload inside a memory cgroup (v2, 9 GiB).
OUT gets a folder per case (output, the doctor's own words, events, evidence), rows.json and table.md.
Exit code 1 when a row is not as expected, or when something is left behind.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import contextlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tools")]

from watch_cases import CASES, GPU_CASES, GPU_FLAGS, Case, Setting

from tests.e2e.watched import CPU_FLAGS, Plain, Server, Setup, Watched, is_free, list_left

HOLD = (
    "import time, torch; free, total = torch.cuda.mem_get_info();"
    "block = torch.empty(int(free - 12 * 2**30), dtype=torch.uint8, device='cuda');"
    "print('held', flush=True); time.sleep(900)"
)


def main() -> int:
    """Run the cases and write the table as far as it goes."""
    options = parse()
    flags = (GPU_FLAGS if options.gpu else CPU_FLAGS) + ("--disable-cuda-graph",) * options.quick
    setting = Setting(Path(options.out).resolve(), Setup(options.python, flags), Path(options.model).resolve())
    wanted = set(options.only.split(",")) if options.only else None
    cases = [case for case in CASES + GPU_CASES * options.gpu if wanted is None or case.name in wanted]
    before, rows = list_left(), list[dict[str, Any]]()
    gpu_before = read_gpu_memory()
    for kind in options.kind.split(","):
        chosen = [case for case in cases if kind == "watched" or case.alone]
        rows += run_lanes([case for case in chosen if not case.held], kind, setting, options.lanes)
        write_table(setting.out, rows)
        held = [case for case in chosen if case.held]
        with hold_gpu(setting) if held else contextlib.nullcontext():
            rows += run_lanes(held, kind, setting, options.lanes)
        rows.append(look_around(kind, before, gpu_before))
        write_table(setting.out, rows)
    return int(not all(row["expected"] for row in rows))


def parse() -> argparse.Namespace:
    """Read the arguments."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out")
    parser.add_argument("--model", required=True)
    parser.add_argument("--python", required=True)
    parser.add_argument("--gpu", action="store_true")
    parser.add_argument(
        "--quick", action="store_true", help="no CUDA graphs: a fresh machine compiles them for a minute"
    )
    parser.add_argument("--only", default="")
    parser.add_argument("--kind", default="watched,plain")
    parser.add_argument("--lanes", type=int, default=1)
    return parser.parse_args()


def run_lanes(cases: Sequence[Case], kind: str, setting: Setting, lanes: int) -> list[dict[str, Any]]:
    """Run cases beside each other."""
    with concurrent.futures.ThreadPoolExecutor(max(lanes, 1)) as pool:
        return list(pool.map(lambda case: run_case(case, kind, setting), cases))


def run_case(case: Case, kind: str, setting: Setting) -> dict[str, Any]:
    """Run one case and say what became of it."""
    folder = setting.out / f"{case.name}-{kind}"
    folder.mkdir(parents=True)
    server: Server = (Watched if kind == "watched" else Plain)(setting.setup, setting.model, folder)
    row: dict[str, Any] = {"case": case.name, "title": case.title, "kind": kind}
    try:
        case.act(server, setting)
        row |= follow(server, case)
    except Exception as error:  # noqa: BLE001 - one broken case must not cost the others their device time
        row |= {"expected": False, "broken": f"{type(error).__name__}: {error}"[-1500:]}
    finally:
        row["left"] = list_remains(server)
        server.clean_up()
    row["notes"] = (folder / "notes.txt").read_text() if (folder / "notes.txt").exists() else ""
    row["expected"] = bool(row.get("expected")) and (kind == "plain" or not row["left"])
    print(json.dumps(row), flush=True)
    return row


def follow(server: Server, case: Case) -> dict[str, Any]:
    """Wait for the end and measure it, in seconds from the blow."""
    if isinstance(server, Watched):
        code = server.end(180)
        gone = round(time.time() - server.injected, 1)
        found = {f"{row['event']} {row.get('after') or row.get('kind') or ''}".strip(): row for row in server.events}
        moments = {name: round(row["time"] - server.injected, 1) for name, row in found.items()}
        expected = code in case.codes and server.diagnosis in case.rules
        return {"code": code, "rule": server.diagnosis, "seconds": moments, "gone": gone, "expected": expected}
    with contextlib.suppress(subprocess.TimeoutExpired):
        server.end(max(case.alone - (time.time() - server.injected), 0.1))
    waited = round(time.time() - server.injected, 1)
    lines = (server.output + server.said).strip().splitlines()
    row = {"code": server.running.poll(), "gone": waited, "health": look_at_health(server), "last": lines[-1:]}
    return {**row, "expected": True}


def look_at_health(server: Server) -> str:
    """Say what a load balancer's probe would get."""
    if server.running.poll() is not None:
        return "gone"
    try:
        return str(server.ask("/health", 5.0)[0])
    except OSError as error:
        return str(getattr(error, "code", "") or getattr(error, "reason", "") or error)


def list_remains(server: Server) -> list[str]:
    """List processes, GPU memory, the port and temporary files that outlived the server, a few seconds later."""
    end, left = time.monotonic() + 8.0, ["?"]
    while left and time.monotonic() < end:
        alive = [pid for pid in server.seen | set(server.list_processes()) if os.path.exists(f"/proc/{pid}")]
        left = [f"process {pid}" for pid in alive] + [f"GPU memory of {pid}" for pid in list_gpu_pids() & server.seen]
        left += [] if is_free(server.port) else [f"port {server.port}"]
        time.sleep(0.3)
    if isinstance(server, Plain):
        left += [str(path.name) for path in server.temporary.iterdir()]
    return left


def look_around(kind: str, before: set[Path], gpu_before: int) -> dict[str, Any]:
    """Say what all cases of a kind left in shared memory, /tmp and on the GPU."""
    left = sorted(str(path) for path in list_left() - before)
    held = read_gpu_memory() - gpu_before
    expected = kind == "plain" or not (left or held > 256)
    row = {"case": "everything", "kind": kind, "left": left, "gpu_mib": held, "expected": expected}
    print(json.dumps(row), flush=True)
    return row


@contextlib.contextmanager
def hold_gpu(setting: Setting) -> Iterator[None]:
    """Hold all but 12 GiB of the GPU."""
    with subprocess.Popen([setting.setup.python, "-c", HOLD], stdout=subprocess.PIPE) as holder:
        if holder.stdout is not None:
            holder.stdout.readline()
        yield
        holder.kill()


def query_gpu(*query: str) -> list[str]:
    """Ask nvidia-smi; nothing where there is none."""
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        argv = ["nvidia-smi", *query, "--format=csv,noheader,nounits"]
        return subprocess.run(argv, capture_output=True, text=True, timeout=20, check=True).stdout.split()
    return []


def read_gpu_memory() -> int:
    """MiB in use."""
    return sum(int(word) for word in query_gpu("--query-gpu=memory.used") if word.isdecimal())


def list_gpu_pids() -> set[int]:
    """Processes that hold GPU memory."""
    return {int(word) for word in query_gpu("--query-compute-apps=pid") if word.isdecimal()}


def write_table(out: Path, rows: list[dict[str, Any]]) -> None:
    """Write what was found so far."""
    (out / "rows.json").write_text(json.dumps(rows, indent=1))
    head = ["fault", "kind", "as expected", "code", "rule", "gone after", "events", "left", "notes"]
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    for row in rows:
        after = f"{row['gone']:.1f} s" if "gone" in row else "-"
        tell = row.get("broken") or row.get("seconds") or f"health {row.get('health')}: {row.get('last')}"
        cells = [row.get("title", row["case"]), row["kind"], row["expected"], row.get("code"), row.get("rule"), after]
        cells += [tell, row["left"], row.get("notes", "")]
        lines.append("| " + " | ".join(str(cell).replace("|", "/").replace("\n", " ")[:400] for cell in cells) + " |")
    (out / "table.md").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    sys.exit(main())

"""Start real SGLang servers with broken commands on a GPU, and again with the command that the doctor prints.

Usage: python3 tools/proof_gpu.py PAGE --model DIR [--only WORDS] [--lanes 4] [--minutes 9] [--logs DIR]

`--model` is a tiny model with weights (tests/e2e/make_model.py). SGLANG_DOCTOR_E2E names a folder with `.ready` and
venv/bin/python and venv/bin/sglang. At most three of the printed commands are tried, in their order: a log does not
always say what the machine has. PAGE gets the table after every row, `--logs` the log of each broken server; no fault
is begun after `--minutes`.
Exit code 1 when a row does not work or was not tried.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import contextlib
import shutil
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tools")]

from measure_memory import SHAPES, llama, write_model

from tests.e2e.corrected import try_fault
from tests.e2e.faults import Fault
from tests.e2e.gpu_faults import ALL, ALONE, SHARED
from tests.e2e.proof import Row, render_table
from tests.e2e.real_server import find_free_port, listen, take_turn

CONFIGS = {
    **{name: SHAPES[name].config for name in ("dense8b", "moe16", "latent12")},
    "dense90b": llama(8192, 28672, 104, 64, 8),
}
ATTEMPTS = 3
MOST_PORT = 55536
HEAD = """\
# Corrected commands, tried on a GPU

Written by `python tools/proof_gpu.py docs/proof-gpu.md --model DIR` on {day}: SGLang 0.5.15.post1, torch 2.11.0+cu130,
one H200. For each fault a real server was started with the command on the left; its log and the command went to
`doctor explain LOG --command COMMAND`; the commands that came back were started, in their order, until one served
(a log that shows too few GPUs does not tell whether the machine has more). "ready" means that a token was generated.

{works} of {all} faults end in a server that works. `…` stands for `{common}`.

"""


def main() -> int:
    """Try the faults, and write the page as far as it goes."""
    options = parse()
    with take_turn(), tempfile.TemporaryDirectory(prefix="proof-") as folder:
        rows = Rows(options, Path(folder))
        for name, config in CONFIGS.items():
            write_model(Path(folder) / name, config)
        wanted = [word.strip() for word in options.only.split(",")] if options.only else [""]
        shared, alone = (
            [fault for fault in group if any(word in fault.name for word in wanted)] for group in (SHARED, ALONE)
        )
        with concurrent.futures.ThreadPoolExecutor(options.lanes) as pool:
            list(pool.map(rows.add, shared))
        for fault in alone:
            rows.add(fault)
    works = [row.works for row in rows.done]
    return int(not all(works) or len(works) < len(shared) + len(alone))


def parse() -> argparse.Namespace:
    """Read the arguments."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("page", type=Path)
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--only", default="")
    parser.add_argument("--logs", type=Path)
    parser.add_argument("--lanes", type=int, default=4)
    parser.add_argument("--minutes", type=float, default=9.0)
    return parser.parse_args()


def find_low_port() -> int:
    """Find a free port that SGLang 0.5.15 accepts: it adds 10000 for gRPC."""
    return next(port for port in iter(find_free_port, 0) if port < MOST_PORT)


class Rows:
    """The rows so far; written after each."""

    def __init__(self, options: argparse.Namespace, folder: Path) -> None:
        """Work in `folder`, and begin nothing after `--minutes`."""
        self.page, self.logs, self.folder = options.page, options.logs, folder
        self.model, self.end = options.model.resolve(), time.monotonic() + 60 * options.minutes
        self.done: list[Row] = []
        self.lock = threading.Lock()

    def add(self, fault: Fault) -> None:
        """Try one fault and write the page again."""
        if time.monotonic() > self.end:
            print(f"not tried: {fault.name}", flush=True)
            return
        own = self.folder / f"run-{fault.name.replace(' ', '-')}"
        own.mkdir()
        given: dict[str, Any] = {
            "model": self.model,
            "port": find_low_port(),
            "folder": own,
            **{name: self.folder / name for name in CONFIGS},
        }
        with listen(given["port"]) if fault.port_taken else contextlib.nullcontext():
            row, log = try_fault(fault, given, own, ATTEMPTS)
        if self.logs:
            shutil.copy(own / "server.log", self.logs / f"{own.name}.log")
        if not row.works:
            print(f"{fault.name}: {row.diagnosis} | {row.corrected} | {row.result}\n{log[-2500:]}", flush=True)
        with self.lock:
            self.done.append(self.shorten(row))
            self.write()

    def shorten(self, row: Row) -> Row:
        """Replace what all commands share."""
        common = ALL.format(port="PORT")
        commands = (
            text.replace(f"{self.folder}/", "").replace(common, "…")
            for text in (row.command, row.corrected, row.diagnosis)
        )
        command, corrected, diagnosis = commands
        return row._replace(command=command, corrected=corrected, diagnosis=diagnosis)

    def write(self) -> None:
        """Write the page in the order of the list."""
        order = {fault.name: at for at, fault in enumerate((*SHARED, *ALONE))}
        rows = sorted(self.done, key=lambda row: order[row.name])
        head = HEAD.format(
            day=time.strftime("%Y-%m-%d"),
            works=sum(row.works for row in rows),
            all=len(rows),
            common=ALL.format(port="PORT"),
        )
        self.page.write_text(head + render_table(rows), encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())

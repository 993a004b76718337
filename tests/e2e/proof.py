"""The record of what the corrected commands did, as docs/proof.md."""

import os
import re
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

CPU = "--device cpu --host 127.0.0.1 --port PORT --max-total-tokens 4096"
HEAD = """\
# Corrected commands, tried on a real server

Written by `make e2e` on {day}, every row in the same run. For each a real SGLang 0.5.23 was started on a machine
without a GPU with the command on the left; its log and the command went to
`doctor explain LOG --command COMMAND --format json`; the first command that came back was started too.
"ready" means that the server generated a token; where the feature itself needs a GPU, "the next stage" is the error
that says so, after the one that was corrected.

{works} of {all} corrected commands work ({share} %).

`…` stands for `{cpu}`, `tiny` for a random two-layer Llama, `DIR` for a folder without the named file.

"""
COLUMNS = """\
| Fault | Command | SGLang said | After | The doctor said | Corrected command | Then |
|---|---|---|---|---|---|---|
"""


class Row(NamedTuple):
    """One fault: what SGLang said after `seconds`, what the doctor made of it, and what the new command did."""

    name: str
    command: str
    said: str
    seconds: float
    diagnosis: str
    corrected: str
    result: str
    works: bool


class Places(NamedTuple):
    """What differs from run to run and is replaced in the page."""

    model: str
    folder: str
    port: str


def shorten(text: str, places: Places) -> str:
    """Replace paths and ports; what all commands share becomes `…`."""
    text = text.replace(places.model, "tiny").replace(places.folder, "DIR")
    text = text.replace(places.port, "PORT")
    text = re.sub(r"(?<=--port )[1-6]\d{3,4}\b", "OTHER-PORT", text)
    text = re.sub(r"(?<=127\.0\.0\.1:)\d{4,5}", "RENDEZVOUS", text)
    return text.replace(CPU, "…")


# Resolved now: the page must be written an hour later, whatever became of the working directory.
TARGET = Path(os.environ["PROOF"]).resolve() if "PROOF" in os.environ else None


def write_proof(rows: Sequence[Row]) -> None:
    """Write the page where PROOF says, nowhere without it."""
    if TARGET is None:
        return
    works = sum(row.works for row in rows)
    head = HEAD.format(
        works=works, all=len(rows), share=100 * works // len(rows), day=time.strftime("%Y-%m-%d"), cpu=CPU
    )
    TARGET.parent.mkdir(parents=True, exist_ok=True)
    TARGET.write_text(head + render_table(rows), encoding="utf-8")


def render_table(rows: Sequence[Row]) -> str:
    return COLUMNS + "".join(f"{render_row(row)}\n" for row in rows)


def render_row(row: Row) -> str:
    cells = (
        row.name,
        f"`{row.command}`",
        f"`{row.said}`",
        f"{row.seconds:.0f} s",
        row.diagnosis,
        f"`{row.corrected}`" if row.corrected else "none",
        row.result,
    )
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"

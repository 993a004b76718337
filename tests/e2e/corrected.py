"""Break a real server, start it with the command that the doctor printed, and write down what became of both."""

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from .faults import Fault
from .proof import Places, Row, shorten
from .real_server import Outcome, start_server


def try_fault(fault: Fault, given: Mapping[str, Any], folder: Path, attempts: int = 1) -> tuple[Row, str]:
    """Return the row of a fault, with the log that shows why when it does not work.

    `given` fills the command's placeholders. At most `attempts` of the printed commands are tried, in their order.
    """
    command = fault.command.format(**given)
    broken = start_server(command, folder)
    report = explain(broken.log, command, folder)
    corrected, result, works, log = "", "no command was printed", False, broken.log
    for corrected in list_commands(report)[:attempts]:
        outcome = start_server(corrected, folder)
        (result, works), log = judge(fault, outcome), outcome.log
        if works:
            break
    first = next(iter(report["diagnoses"]), {"rule": "none", "title": "", "evidence": [{"text": ""}]})
    texts = (command, first["evidence"][0]["text"], f"{first['rule']}: {first['title']}", corrected, result)
    places = Places(str(given["model"]), str(folder), str(given["port"]))
    typed, said, diagnosis, printed, then = (shorten(text, places) for text in texts)
    return Row(
        fault.name, typed, said[:160], broken.seconds, diagnosis, printed, then, works and broken.ended != "ready"
    ), log


def explain(log: str, command: str, folder: Path) -> dict[str, Any]:
    path = folder / "server.log"
    path.write_text(log)
    words = [sys.executable, "-m", "doctor", "explain", str(path), "--command", command, "--format", "json"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode in {0, 1}, done.stderr
    report: dict[str, Any] = json.loads(done.stdout)
    return report


def list_commands(report: dict[str, Any]) -> list[str]:
    """List the printed commands of all diagnoses, in the order in which a reader meets them."""
    return [fix["command"] for item in report["diagnoses"] for fix in item["fixes"] if fix["command"]]


def judge(fault: Fault, outcome: Outcome) -> tuple[str, bool]:
    """Say what the corrected command did, and whether that is what was promised."""
    if outcome.ended == "ready":
        return f"ready after {outcome.seconds:.0f} s", True
    if fault.next_stage and fault.next_stage in outcome.log:
        return f"the next stage: {fault.next_stage}", True
    last = outcome.log.strip().splitlines()[-1:] or [""]
    return f"{outcome.ended} (code {outcome.code}): {last[0][:120]}", False

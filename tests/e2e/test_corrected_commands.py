"""A real server is started with a broken command, then with the one that the doctor printed."""

import contextlib
import json
import subprocess
import sys

import pytest

from .faults import FAULTS, QUICK
from .proof import Places, Row, shorten
from .real_server import find_free_port, listen, start_server

pytestmark = pytest.mark.e2e
each_fault = pytest.mark.parametrize(
    "fault",
    [
        pytest.param(fault, id=fault.name.replace(" ", "-"), marks=[pytest.mark.quick] if fault.name in QUICK else [])
        for fault in FAULTS
    ],
)


def explain(log, command, folder):
    path = folder / "server.log"
    path.write_text(log)
    words = [sys.executable, "-m", "doctor", "explain", str(path), "--command", command, "--format", "json"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode in {0, 1}, done.stderr
    return json.loads(done.stdout)


def find_command(report):
    fixes = (fix for item in report["diagnoses"] for fix in item["fixes"] if fix["command"])
    return next(fixes, {"command": ""})["command"]


def judge(fault, outcome):
    """Say what the corrected command did, and whether that is what was promised."""
    if outcome is None:
        return "no command was printed", False
    if outcome.ended == "ready":
        return f"ready after {outcome.seconds:.0f} s", True
    if fault.next_stage and fault.next_stage in outcome.log:
        return f"the next stage: {fault.next_stage}", True
    last = outcome.log.strip().splitlines()[-1:] or [""]
    return f"{outcome.ended} (code {outcome.code}): {last[0][:120]}", False


@each_fault
def test_corrected_command_works(fault, model, tmp_path, rows):
    port = find_free_port()
    (tmp_path / "server.ini").write_text("[server]\n")
    given = {"model": model, "port": port, "folder": tmp_path, "rendezvous": find_free_port()}
    command = fault.command.format(**given)
    with listen(port) if fault.port_taken else contextlib.nullcontext():
        broken = start_server(command, tmp_path)
        report = explain(broken.log, command, tmp_path)
        corrected = find_command(report)
        outcome = start_server(corrected, tmp_path) if corrected else None
    result, works = judge(fault, outcome)
    first = next(iter(report["diagnoses"]), {"rule": "none", "title": "", "evidence": [{"text": ""}]})
    texts = (command, first["evidence"][0]["text"], f"{first['rule']}: {first['title']}", corrected, result)
    places = Places(str(model), str(tmp_path), str(port))
    typed, said, diagnosis, printed, then = (shorten(text, places) for text in texts)
    rows[fault.name] = Row(fault.name, typed, said[:160], broken.seconds, diagnosis, printed, then, works)
    assert broken.ended != "ready"
    assert works, f"{corrected}\n{result}\n{(outcome.log if outcome else broken.log)[-3000:]}"

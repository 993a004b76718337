"""The deployment examples start commands that the parser takes, and name endpoints that exist."""

import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from doctor.cli import build_parser, split_launch
from doctor.watch.launch import read_launch
from doctor.watch.listen import answer
from doctor.watch.status import Status

DEPLOY = Path(__file__).parents[2] / "docs" / "deploy"


def read_words(name):
    text = (DEPLOY / name).read_text()
    if name.endswith(".service"):
        return shlex.split(next(line for line in text.splitlines() if line.startswith("ExecStart=")).split("=", 1)[1])
    if name.startswith("compose"):
        folded = re.search(r"command: >-\n((?:      .*\n)+)", text)[1]
        return shlex.split(" ".join(folded.split()))
    lists = re.findall(r"^ +(?:command|args): (\[.*\])$", text, re.MULTILINE)
    return [word.strip(' "') for part in lists for word in part.strip("[]").split(",")]


NAMES = ["sglang.service", "compose.yaml", "kubernetes.yaml"]


@pytest.mark.parametrize("name", NAMES)
def test_command_is_one_that_the_doctor_takes(name):
    words = read_words(name)
    assert Path(words[0]).name == "doctor"
    own, launch = split_launch(words[1:])
    options = build_parser().parse_args(own)
    assert options.subcommand == "run"
    assert options.listen.endswith(":9100")
    assert read_launch(launch).arguments["model_path"] == "/models/model"


@pytest.mark.parametrize("name", NAMES[1:])
def test_endpoints_of_probes_exist(name):
    paths = set(re.findall(r"(?:path: |9100)(/\w+z)", (DEPLOY / name).read_text()))
    assert paths
    assert all(answer(path, Status(), 0.0)[0] != 404 for path in paths)


def test_grace_periods_are_longer_than_the_doctors():
    stop_after = build_parser().parse_args(["run"]).stop_after
    periods = [
        re.search(r"TimeoutStopSec=(\d+)", (DEPLOY / "sglang.service").read_text())[1],
        re.search(r"stop_grace_period: (\d+)s", (DEPLOY / "compose.yaml").read_text())[1],
        re.search(r"terminationGracePeriodSeconds: (\d+)", (DEPLOY / "kubernetes.yaml").read_text())[1],
    ]
    assert all(int(period) > stop_after + 15 for period in periods)


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="systemd is not installed here")
def test_unit_is_accepted_by_systemd():
    done = subprocess.run(
        ["systemd-analyze", "verify", str(DEPLOY / "sglang.service")], capture_output=True, text=True, check=False
    )
    assert "Unknown" not in done.stderr

"""Real logs and what must be said of them: exactly, in order."""

import json
from pathlib import Path

import pytest

from tests.helpers import FIXTURES, explain_bytes, list_findings

RECORDED = [
    path
    for path in sorted([*FIXTURES.glob("seed/*.json"), *FIXTURES.glob("recordings/*/*.json")])
    if path.with_suffix(".log").exists()
]
CASES = sorted(FIXTURES.glob("cases/*/*.json"))


def explain_fixture(path: Path):
    log = path.with_suffix(".log")
    files = [(log.name, log.read_bytes())]
    kernel = path.with_suffix(".kernel.log")
    if kernel.exists():
        files.append((kernel.name, kernel.read_bytes()))
    return explain_bytes(*files)


@pytest.mark.parametrize("path", RECORDED, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_recorded_log(path: Path) -> None:
    expected = json.loads(path.read_text("utf-8"))
    report = explain_fixture(path)
    assert report.verdict == expected["verdict"]
    assert list_findings(report) == expected["findings"]


@pytest.mark.parametrize("path", CASES, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_case(path: Path) -> None:
    expected = json.loads(path.read_text("utf-8"))
    report = explain_fixture(path)
    if "rule" in expected:
        assert report.root is not None
        assert report.root.rule == expected["rule"]
    else:
        assert report.root is None
        assert report.verdict == expected["verdict"]

"""Every recording in every form that people paste: the same cause comes out."""

from functools import cache
from pathlib import Path

import pytest

from tests.helpers import FIXTURES, explain_bytes
from tests.wrappings import ISSUES, WRAPPINGS

LOGS = sorted(
    path
    for folder in ("recordings/cpu", "recordings/h200", "seed")
    for path in (FIXTURES / folder).glob("*.log")
    if not path.name.endswith(".kernel.log")
)
STRIDE = 6
"""Every wrapping meets every sixth recording, others than its neighbours do; all pairs take two minutes."""

LOST = {
    "long lines cut": {"gpu_busy", "nnodes_no_peer", "offload_ram_exhausted"},  # what the answer needs was cut off
    "80 columns": {"offload_ram_exhausted"},  # times are cut in two, and nothing else separates its records
    "no fence": {"offload_vram_torchcodec_noise"},  # its indentation was lost, so its code reads like prose
    "preformatted": {"offload_vram_torchcodec_noise"},
    "answered by mail": {"offload_vram_torchcodec_noise"},
    "time and level": {"offload_ram_exhausted"},  # glued records are found by their brackets
    "time without brackets": {"offload_ram_exhausted"},
    "seconds since 1970": {"offload_ram_exhausted"},
}
"""Recordings whose cause a wrapping really loses."""


def judge(name: str, data: bytes) -> tuple[str, str | None]:
    report = explain_bytes((name, data))
    return report.verdict, report.root.rule if report.root else None


@cache
def judge_plain(path: Path) -> tuple[str, str | None]:
    return judge("server.log", path.read_bytes())


def share_of(number: int) -> list[Path]:
    return LOGS[number % STRIDE :: STRIDE]


@pytest.mark.parametrize(("number", "wrapping"), list(enumerate(WRAPPINGS)), ids=WRAPPINGS)
def test_wrapping_does_not_change_the_cause(number: int, wrapping: str) -> None:
    for path in share_of(number):
        if path.stem not in LOST.get(wrapping, ()):
            found = judge("server.log", WRAPPINGS[wrapping](path.read_bytes()))
            assert found == judge_plain(path), path.stem


@pytest.mark.parametrize(("number", "wrapping"), list(enumerate(ISSUES)), ids=ISSUES)
def test_issue_does_not_change_the_cause(number: int, wrapping: str) -> None:
    for path in share_of(number):
        if path.stem not in LOST.get(wrapping, ()):
            found = judge("issue.md", ISSUES[wrapping](path.read_bytes()))
            assert found == judge_plain(path), path.stem

import pytest

from doctor.logs.events import process
from tests.logs.events.helpers import parse

DEATHS = {
    "Subprocess scheduler_0 (pid=1793) crashed with exit code -9. Triggering SIGQUIT for cleanup...": (
        "scheduler_0",
        1793,
        -9,
    ),
    "Subprocess detokenizer (pid=5) crashed with exit code 1. Triggering SIGQUIT": ("detokenizer", 5, 1),
    "RuntimeError: Rank 0 scheduler died during initialization (exit code: -11). If exit code is -9 (SIGKILL), a common cause": (
        "Rank 0 scheduler",
        None,
        -11,
    ),
    "Exit code: -9": ("scheduler", None, -9),
    "Scheduler or DataParallelController 77 terminated with -6": ("Scheduler or DataParallelController", 77, -6),
    "DataParallelController 77 terminated with 1": ("DataParallelController", 77, 1),
}


@pytest.mark.parametrize(("message", "expected"), DEATHS.items())
def test_death(message: str, expected: tuple) -> None:
    (event,) = parse(process, f"[2026-04-24 06:29:19] {message}")
    assert (event.name, event.pid, event.code) == expected


def test_death_at_the_end_of_a_traceback() -> None:
    (event,) = parse(
        process,
        "Traceback (most recent call last):\n"
        + '  File "x", line 1, in f\n' * 100
        + "RuntimeError: Rank 3 scheduler died during initialization (exit code: 1).\n",
    )
    assert (event.name, event.code) == ("Rank 3 scheduler", 1)


@pytest.mark.parametrize(
    "message",
    [
        "the process terminated with 1 error",
        "see Exit code: 1",
        "Rank 0 scheduler died (exit code: 1)",
        "Exit code: " + "9" * 6000,
        "a" * 1900 + "ontroller 1 terminated with 1",
    ],
)
def test_death_near_miss(message: str) -> None:
    assert parse(process, f"[2026-04-24 06:29:19] {message}") == []

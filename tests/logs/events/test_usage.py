import pytest

from doctor.logs.events import usage
from tests.helpers import FIXTURES
from tests.logs.events.helpers import parse

ERROR = "sglang serve: error: unrecognized arguments: --tpp 2"
TEXT = f"usage: sglang serve [-h] [--model-path MODEL]\n                    [--tp-size N] [--x {{a,b}}]\n{ERROR}\n"


def test_usage_text_with_its_error() -> None:
    (event,) = parse(usage, TEXT)
    assert (event.program, event.message) == ("sglang serve", "unrecognized arguments: --tpp 2")
    assert event.options == ("--model-path", "--tp-size", "--x")
    assert event.record.line == 3


@pytest.mark.parametrize(
    "line",
    [
        ERROR,
        "launch_server.py: error: argument --tp: invalid int value: 'x'",
        "python3 -m sglang.launch_server: error: ambiguous option: --t",
    ],
)
def test_error_line_alone(line: str) -> None:
    (event,) = parse(usage, line)
    assert event.options == ()


@pytest.mark.parametrize(
    "line",
    ["gcc: error: unrecognized argument", "nvcc: error: x", "sglang serve: warning: x", "x: sglang serve: error: x"],
)
def test_usage_near_miss(line: str) -> None:
    assert parse(usage, line) == []


def test_usage_text_of_a_recorded_server() -> None:
    (event,) = parse(usage, (FIXTURES / "recordings/cpu/flag_misspelt.log").read_bytes())
    assert len(event.options) > 300

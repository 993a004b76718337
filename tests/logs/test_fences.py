"""A pasted issue: what stands in fences is a log, prose is not, and a log pasted without fences is found."""

import hypothesis.strategies as st
import pytest
from hypothesis import given

from doctor.logs.fences import FenceFilter
from doctor.logs.kinds import ECHO
from tests.logs.helpers import list_messages, read_records

LOG = '[2026-04-24 06:29:19 TP0] Scheduler hit an exception: Traceback (most recent call last):\n  File "x.py", line 1, in f\nValueError: bad\n'


def keep(text: str, name: str = "issue.md") -> list[str]:
    fences = FenceFilter(name)
    lines = list(enumerate(text.encode().split(b"\n"), 1))
    return [line.decode() for _, line in (fences.filter(lines) if fences.is_needed(lines) else lines)]


def test_fenced_log_is_kept_and_prose_is_dropped() -> None:
    assert keep("### Bug\nI get CUDA out of memory\n```text\nline\n\nother\n```\nThanks! RuntimeError is bad\n") == [
        "line",
        "",
        "other",
    ]


def test_lines_keep_their_numbers() -> None:
    (record,) = read_records(f"### Bug\n\n```\n{LOG}```\n", "issue.md")
    assert [number for number, _ in record.lines] == [4, 5, 6]


@pytest.mark.parametrize(
    ("opening", "closing"),
    [
        ("```", "```"),
        ("```shell", "```"),
        ("~~~", "~~~"),
        ("````", "````"),
        ("````", "``````"),
        ("- ```", "  ```"),
        ("   ```python", "   ```"),
        ("> ```", "> ```"),
        ("``` ", "```  "),
    ],
)
def test_fences_of_every_kind(opening: str, closing: str) -> None:
    assert keep(f"prose\n{opening}\nlog\n{closing}\nprose\n") == ["log"]


@pytest.mark.parametrize("inner", ["```", "~~~", "```shell", "`x`"])
def test_longer_fence_holds_a_shorter_one(inner: str) -> None:
    assert keep(f"````\nlog\n{inner}\nmore\n````\nprose\n") == ["log", inner, "more"]


def test_fence_without_end_keeps_the_rest() -> None:
    assert keep("prose\n```\nlog\nmore") == ["log", "more"]


def test_inline_code_is_no_fence() -> None:
    assert keep("```pip install sglang``` fails\nprose\n```\nlog\n```\n") == ["log"]


@pytest.mark.parametrize(
    "line",
    [
        "[2026-04-24 06:29:19] Killed",
        "Traceback (most recent call last):",
        "torch.OutOfMemoryError: CUDA out of memory.",
        "$ sglang serve --model-path m",
        "CUDA_VISIBLE_DEVICES=0 python3 -m sglang.launch_server --model m",
        "docker run --gpus all lmsysorg/sglang:latest",
        "> [2026-04-24 06:29:19] Killed",
        "[12.5] NVRM: Xid".removeprefix("[12.5] "),
    ],
)
def test_log_line_outside_of_fences_is_kept(line: str) -> None:
    assert keep(f"Hello,\n{line}\nWhat now?") == [line]


def test_log_without_fences_goes_on_while_indented() -> None:
    assert keep(
        'Hello\nTraceback (most recent call last):\n  File "x", line 1, in f\n    f()\nValueError: bad\nWhat now?'
    ) == [
        "Traceback (most recent call last):",
        '  File "x", line 1, in f',
        "    f()",
        "ValueError: bad",
    ]


@pytest.mark.parametrize(
    "line",
    [
        "I see a RuntimeError when I start it",
        "    indented prose",
        "Error happens always",
        "python is slow",
        "| RuntimeError: x | table |",
    ],
)
def test_prose_that_talks_of_errors_is_dropped(line: str) -> None:
    assert keep(f"Hello\n{line}\n") == []


def test_plain_log_is_left_alone() -> None:
    assert keep(LOG + "prose", "server.log") == [*LOG.splitlines(), "prose"]


def test_plain_file_becomes_markdown_at_its_first_fence() -> None:
    assert keep("before\n```\nlog\n```\nprose", "paste.txt") == ["before", "log"]


def test_quoted_fence_in_a_plain_log_is_text() -> None:
    assert keep("> ```\nlog\n", "server.log") == ["> ```", "log", ""]


def test_log_indented_in_a_list_is_read() -> None:
    indented = "".join(f"   {line}\n" for line in ["```", *LOG.splitlines(), "```"])
    (record,) = read_records(f"1. start it\n{indented}", "issue.md")
    assert record.text == LOG.partition("] ")[2].rstrip("\n")


def test_logged_request_passes_as_such() -> None:
    assert FenceFilter("issue.md").filter([(1, ECHO)]) == [(1, ECHO)]


def test_two_fences_are_two_logs() -> None:
    assert list_messages("```\n[2026-04-24 06:29:19] a\n```\nand\n```\n[2026-04-24 06:29:20] b\n```\n") == ["a", "b"]


FRAGMENTS = st.sampled_from(
    ["```", "````", "~~~", "> ```", "```text", "prose", "[2026-04-24 06:29:19] x", "  File", "ValueError: x", ""]
)


@given(st.lists(FRAGMENTS, max_size=30), st.integers(1, 7), st.sampled_from(["issue.md", "server.log"]))
def test_filtering_does_not_depend_on_where_blocks_begin(lines: list[str], size: int, name: str) -> None:
    numbered = [(number, line.encode()) for number, line in enumerate(lines, 1)]
    whole, parts = FenceFilter(name), FenceFilter(name)
    expected = whole.filter(numbered) if whole.is_needed(numbered) else numbered
    found = []
    for at in range(0, len(numbered), size):
        block = numbered[at : at + size]
        found += parts.filter(block) if parts.is_needed(block) else block
    assert found == expected


@pytest.mark.parametrize(
    ("line", "bare"),
    [
        ("`ValueError: bad`", "ValueError: bad"),
        ("`ValueError: no `x` here`", "ValueError: no `x` here"),
        ("`ValueError: no `x`", "ValueError: no `x`"),
        ("`[2026-04-24 06:29:19 TP0] Load weight begin.` ", "[2026-04-24 06:29:19 TP0] Load weight begin."),
        ("`Traceback (most recent call last):", "Traceback (most recent call last):"),
        ("*** torch.OutOfMemoryError: CUDA out of memory", "torch.OutOfMemoryError: CUDA out of memory"),
    ],
    ids=["whole", "quoted name", "quoted name last", "record", "several lines", "debugger"],
)
@pytest.mark.parametrize("name", ["issue.md", "server.log"])
def test_inline_code_around_an_error_is_taken_off(line: str, bare: str, name: str) -> None:
    assert keep(line + "\n", name)[0] == bare


@pytest.mark.parametrize("line", ["`--tp 2` helps", "*** Bug ***", "`model` is bad"])
def test_other_inline_code_stays(line: str) -> None:
    assert keep(line, "server.log") == [line]

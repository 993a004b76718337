"""What tools put around a log's lines is taken off, and what only looks like it stays."""

import hypothesis.strategies as st
import pytest
from hypothesis import given

from doctor.logs.carriers import Carriers, unescape_entities
from doctor.logs.prefixes import Prefixes, find_prefix, unescape
from doctor.logs.wraps import Wraps
from tests.logs.helpers import list_messages, read_records

ONE, TWO = "[2026-04-24 06:29:19 TP1] one", "[2026-04-24 06:29:20 TP1] two"
FRAME = '  File "/x/y.py", line 1, in f'


def strip(*lines: str) -> list[tuple[str, bytes]]:
    prefixes = Prefixes()
    return [prefixes.strip(number, line.encode()) for number, line in enumerate(lines, 1)]


# prefixes that no list knows


@pytest.mark.parametrize(
    ("prefix", "process"),
    [
        ("gpu-7: ", "gpu-7"),
        ("[default0]:", "default0"),
        ("0|sglang  | ", "sglang"),
        ("| ", ""),
        ("3: ", "3"),
        ("06:29:19 web.1 | ", "web.1"),
        ("sglang-7d9f4c5b6d-abcde server ", "sglang-7d9f4c5b6d-abcde server"),
        ("(head, rank=0, pid=1234) ", "head rank=0 pid=1234"),
    ],
)
def test_prefix_seen_twice_is_taken_off_every_line(prefix: str, process: str) -> None:
    *_, two, frame, code, blank = strip(*(prefix + line for line in (ONE, TWO, FRAME, "    f()", "")))
    assert two == (process, TWO.encode())
    assert frame == (process, FRAME.encode())
    assert code == (process, b"    f()")
    assert blank[1] == b""


def test_blank_line_without_the_last_blank_of_its_prefix_is_blank() -> None:
    assert strip("| " + ONE, "| " + TWO, "|")[-1] == ("", b"")


@pytest.mark.parametrize("line", ["gpu-7 down", "gpu: x", "7: x", "gpu-77", ""])
def test_line_without_the_prefix_stays(line: str) -> None:
    assert strip("gpu-7: " + ONE, "gpu-7: " + TWO, line)[-1] == ("", line.encode())


def test_prefix_seen_once_stays() -> None:
    assert strip("gpu-7: " + ONE, "gpu-7: up")[-1] == ("", b"gpu-7: up")


def test_line_numbers_name_no_process() -> None:
    assert [process for process, _ in strip(*(f"{number}:{ONE}" for number in range(5, 9)))] == [""] * 4


def test_tasks_of_srun_are_told_apart() -> None:
    found = strip("0: " + ONE, "1: " + ONE, "1: " + TWO, "0: " + FRAME, "1: " + FRAME)
    assert [process for process, _ in found] == ["0", "1", "1", "0", "1"]


def test_names_of_pods_without_digits_are_learned_one_by_one() -> None:
    lines = [f"{pod} srv {line}" for pod in ("alpha", "beta") for line in (ONE, TWO, FRAME)]
    assert [process for process, _ in strip(*lines)] == ["", "alpha srv", "alpha srv", "", "beta srv", "beta srv"]


@pytest.mark.parametrize(
    "line",
    [
        ONE,
        FRAME,
        "Scheduler hit an exception: Traceback (most recent call last):",
        "[TP0] Scheduler hit an exception: Traceback (most recent call last):",
        "  | Traceback (most recent call last):",
        '    |   File "/x/y.py", line 1, in f',
        "    " + ONE,
        "x" * 300 + ONE,
        "sglang serve: error: argument --tp",
    ],
)
def test_text_that_belongs_to_the_log_is_no_prefix(line: str) -> None:
    assert find_prefix(line.encode())[0] == b""


def test_bars_of_an_exception_group_stay_one_record() -> None:
    text = "\n".join(
        [
            "  + Exception Group Traceback (most recent call last):",
            *(f"  | {line}" for line in (FRAME, "    f()", FRAME, "    g()", "ExceptionGroup: two (2 sub-exceptions)")),
            "  +-+---------------- 1 ----------------",
            *(f"    | {line}" for line in ("Traceback (most recent call last):", FRAME, "    f()", "ValueError: bad")),
        ]
    )
    (record,) = read_records(text)
    assert len(record.lines) == 11


def test_shapes_are_bounded() -> None:
    prefixes = Prefixes()
    for number in range(2000):
        word = "".join(chr(97 + int(digit)) for digit in str(number // 2))
        prefixes.strip(number, f"{word} {ONE}".encode())
    assert len(prefixes.learned) == 16
    assert len(prefixes._seen) <= 64


@given(st.lists(st.tuples(st.text("ab1: |-[]\"'\t", max_size=12), st.sampled_from([ONE, FRAME, "usage: x [-h]", "y"]))))
def test_any_prefixes_end_and_lose_no_text_but_their_own(lines: list[tuple[str, str]]) -> None:
    for (prefix, text), (_, rest) in zip(lines, strip(*(prefix + text for prefix, text in lines)), strict=True):
        assert (prefix + text).encode().endswith(rest) or '"' in prefix or "'" in prefix


# exports, web pages, terminals


def read_lines(*lines: str) -> list[bytes]:
    carriers = Carriers()
    return [piece for number, line in enumerate(lines, 1) for piece in carriers.strip(number, line.encode())[1]]


@pytest.mark.parametrize(
    "line",
    [
        '{"log":"%s\\n","stream":"stderr"}',
        '{"ts":1,"msg": "%s"}',
        '            "message": "%s",',
        '{"labels":{"a":"b \\" c"},"line":"%s","n":1},',
    ],
)
def test_text_of_a_json_record_is_read(line: str) -> None:
    assert read_lines(line % ONE, line % 'ValueError: \\"a\\\\b\\" \\u4e2d')[-2:] == [
        ONE.encode(),
        'ValueError: "a\\b" 中'.encode(),
    ]


def test_json_record_cut_in_its_text_is_read_to_its_end() -> None:
    assert read_lines('{"log":"' + ONE) == [ONE.encode()]


def test_json_record_of_several_lines_is_several_lines() -> None:
    assert read_lines('{"log":"Traceback (most recent call last):\\n  File \\"x\\"\\n"}') == [
        b"Traceback (most recent call last):",
        b'  File "x"',
    ]


@pytest.mark.parametrize(
    "line",
    ['{"object":"error","message":"The input is too long","code":400}', '{"message": 1}', f'{{"text":"{ONE}"}}', "{"],
)
def test_json_that_carries_no_log_stays(line: str) -> None:
    assert read_lines(line) == [line.encode()]


def test_pods_of_json_records_are_told_apart() -> None:
    line = '{"pod":"%s","log":"%s"}'
    carriers = Carriers()
    assert [carriers.strip(1, (line % (pod, ONE)).encode())[0] for pod in ("sg-0", "sg-1")] == ["sg-0", "sg-1"]


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("&quot;a&quot; &lt;b&gt; &#x27;c&#39; &#34;d&#x22; e&nbsp;f", '"a" <b> \'c\' "d" e f'),
        ("&amp;quot;", "&quot;"),
        ("a && b &c; &#65; &copy; &", "a && b &c; &#65; &copy; &"),
    ],
)
def test_entities(text: str, meant: str) -> None:
    assert unescape_entities(text.encode()) == meant.encode()


def test_entities_of_a_record_are_undone() -> None:
    (record,) = read_records(f"{ONE} &lt;b&gt;\n  File &quot;x&quot;")
    assert record.text == 'one <b>\n  File "x"'


@pytest.mark.parametrize("escape", ["", "^[", "\\x1b", "\\u001b", "\\033", "#033", "\N{SYMBOL FOR ESCAPE}"])
def test_colours_whose_escape_was_lost(escape: str) -> None:
    assert read_lines(f"{escape}[1;31mred{escape}[0m", f"{escape}[2mdim{escape}[22m") == [b"red", b"dim"]


@pytest.mark.parametrize("line", ["a[10m] b", "took [5m", "[2m"])
def test_colour_without_an_end_stays(line: str) -> None:
    assert read_lines(line) == [line.encode()]


def test_log_with_its_newlines_written_out() -> None:
    assert list_messages(f'{ONE}\\n{TWO}\\nTraceback (most recent call last):\\n  File \\"x\\"') == [
        "one",
        "two",
        "Traceback (most recent call last):",
    ]


@given(st.binary(max_size=60))
def test_unescape_never_fails(text: bytes) -> None:
    assert isinstance(unescape(text), bytes)


# lines broken at the width of a terminal


def fold(text: str, width: int) -> list[tuple[int, bytes]]:
    lines = [text[at : at + width] for text in text.split("\n") for at in range(0, max(len(text), 1), width)]
    return [(number, line.encode()) for number, line in enumerate(lines, 1)]


DUMP = "[2026-04-24 06:29:19] server_args=ServerArgs(" + ", ".join(f"field_{n}={n}" for n in range(60)) + ")"
TRACE = f"Traceback (most recent call last):\n{FRAME.replace('/x', '/x' * 40)}\n    f()\nValueError: {'bad ' * 30}"


@pytest.mark.parametrize("text", [DUMP, TRACE])
def test_broken_lines_are_joined(text: str) -> None:
    joined = Wraps().join(fold(text, 80))
    assert "\n".join(line.decode() for _, line in joined) == text
    assert joined[0][0] == 1


def test_width_once_known_holds_for_the_file() -> None:
    wraps = Wraps()
    wraps.join(fold(DUMP, 80))
    assert wraps.join(fold("x" * 100, 80)) == [(1, b"x" * 100)]


def test_longer_line_shows_that_nothing_is_broken() -> None:
    wraps = Wraps()
    wraps.join(fold(DUMP, 80))
    wraps.join([(1, b"x" * 81)])
    lines = fold("x" * 100, 80)
    assert wraps.join(lines) == lines


@pytest.mark.parametrize(
    "lines",
    [
        ["+" + "-" * 78 + "+"] * 5,
        [f"| {number:77d} |" for number in range(9)],
        ["=" * 80] * 9,
        ["x" * 80] * 9,
        [f"{number:050d}" for number in range(9)],
        [f"{number:0500d}" for number in range(9)],
        [FRAME.ljust(80, "x"), "ValueError: bad"],
        ['  File "/x.py", line 1'.ljust(80), "    f("],
    ],
    ids=["table edges", "table rows", "rule", "same line", "narrow", "too wide", "frame without code", "syntax error"],
)
def test_lines_of_one_length_that_are_not_broken(lines: list[str]) -> None:
    numbered = [(number, line.encode()) for number, line in enumerate(lines, 1)]
    assert Wraps().join(numbered) == numbered


# times in other forms


@pytest.mark.parametrize(
    ("stamp", "time"),
    [
        ("[2026-04-24T06:29:19 TP1]", "2026-04-24 06:29:19"),
        ("[2026-04-24T06:29:19Z TP1]", "2026-04-24 06:29:19"),
        ("[2026-04-24T06:29:19.123456+00:00 TP1]", "2026-04-24 06:29:19.123456"),
        ("[2026/04/24 06:29:19 TP1]", "2026-04-24 06:29:19"),
        ("[1777012159 TP1]", "2026-04-24 06:29:19"),
        ("[1777012159.123456 TP1]", "2026-04-24 06:29:19"),
    ],
)
def test_time_of_another_form_begins_a_record(stamp: str, time: str) -> None:
    first, second = read_records(f"{stamp} one\n{stamp} two\n")
    assert (first.time, first.rank, first.message, second.message) == (time, "TP1", "one", "two")


@pytest.mark.parametrize(
    "head", ["2026-04-24 06:29:19,123 - INFO - ", "2026-04-24 06:29:19.123 | INFO     | a.b:f:7 - "]
)
def test_level_of_another_logger_is_no_message(head: str) -> None:
    assert list_messages(f"{head}Load weight begin.") == ["Load weight begin."]


def test_seconds_since_1970_are_no_kernel_record() -> None:
    kinds = [record.kind for record in read_records("[1777012159.123456] one\n[  123.456789] NVRM: Xid")]
    assert kinds == ["other", "kernel"]


# what a prompt quotes

REQUEST = "[2026-04-24 06:29:19] Receive: obj=GenerateReqInput(text='why?"


@pytest.mark.parametrize("rest", [f"x {TWO}", f"x\\n{TWO}", f"x {TWO} y {ONE}"])
def test_time_in_the_line_after_a_logged_request_is_quoted_by_it(rest: str) -> None:
    assert list_messages(f"{REQUEST}\n{rest}\n[2026-04-24 06:29:21] next\n") == ["next"]


def test_record_glued_to_a_bar_after_a_logged_request_is_found() -> None:
    assert list_messages(f"{REQUEST}\n 50%|#    | 1/2 [00:01<00:01,  1.00it/s]\r{TWO}\n")[-1] == "two"

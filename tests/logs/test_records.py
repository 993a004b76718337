"""Lines to records, whatever carried the log here."""

import hypothesis.strategies as st
import pytest
from hypothesis import given

from doctor.logs.carriers import strip_container
from doctor.logs.records import _MOST_OPEN, _MOST_PROCESSES, RecordReader
from tests.helpers import FIXTURES
from tests.logs.helpers import list_messages, read_record, read_records

TRACEBACK = """\
[2026-04-24 06:29:19 TP0] Scheduler hit an exception: Traceback (most recent call last):
  File "/sgl/scheduler.py", line 10, in run
    run()
ValueError: bad

During handling of the above exception, another exception occurred:

Traceback (most recent call last):
  File "/sgl/scheduler.py", line 20, in main
    main()
RuntimeError: worse
second line of the message
"""

TIMES = {
    "[2026-04-24 06:29:19] ready": "2026-04-24 06:29:19",
    "[2026-04-24 06:29:19.123] ready": "2026-04-24 06:29:19.123",
    "[2026-04-24 06:29:19,123] ready": "2026-04-24 06:29:19,123",
    "2026-04-24T06:29:19.5 ready": "2026-04-24 06:29:19.5",
    "2026-04-24 06:29:19,456 ready": "2026-04-24 06:29:19,456",
    "[04-24 06:29:19] ready": "04-24 06:29:19",
    "[06:29:19] ready": "06:29:19",
    "[06:29:19 TP0] ready": "06:29:19",
}


@pytest.mark.parametrize(("line", "time"), TIMES.items())
def test_time_is_taken_off_the_message(line: str, time: str) -> None:
    record = read_record(line)
    assert (record.time, record.message) == (time, "ready")


RANKS = {
    "[2026-04-24 06:29:19 TP4] m": "TP4",
    "[2026-04-24 06:29:19.001 TP4] m": "TP4",
    "[2026-04-24 06:29:19 DP0 TP1 PP2] m": "DP0 TP1 PP2",
    "[2026-04-24 06:29:19 DP0 TP1 EP1 PP2] m": "DP0 TP1 EP1 PP2",
    "[2026-04-24 06:29:19 DP0 PP2 TP1 EP1] m": "DP0 PP2 TP1 EP1",
    "[2026-04-24 06:29:19 DP0 PP1 ATTN_CP2 MOE_DP3 TP1 EP1] m": "DP0 PP1 ATTN_CP2 MOE_DP3 TP1 EP1",
    "[2026-04-24 06:29:19 encode_server] m": "encode_server",
    "[2026-04-24 06:29:19 encode_dp_worker[3]] m": "encode_dp_worker[3]",
    "[2026-04-24 06:29:19] m": "",
    "[gpu=3] m": "TP3",
    "[TP0] m": "TP0",
    "[DP1 TP0] m": "DP1 TP0",
    "[2026-04-24 06:29:19 HTTP5 XTP3 TP] m": "",
    "[2026-04-24 06:29:19 TP" + "9" * 50 + "] m": "",
}


@pytest.mark.parametrize(("line", "rank"), RANKS.items())
def test_rank_tags_in_any_order(line: str, rank: str) -> None:
    assert (read_record(line).rank, read_record(line).message[-1]) == (rank, "m")


def test_rank_tags_without_end_are_bounded() -> None:
    assert len(read_record("[2026-04-24 06:29:19" + " TP1" * 100_000 + "] m").rank) <= 100


PREFIXES = {
    "docker compose": ("sglang-1  | ", "sglang-1"),
    "compose, two replicas": ("my_app-sglang-12 | ", "my_app-sglang-12"),
    "kubectl --prefix": ("[pod/sglang-0/server] ", "pod/sglang-0/server"),
    "kubectl --timestamps": ("2026-04-24T06:29:19.123456789Z ", ""),
    "containerd": ("2026-04-24T06:29:19.123456789+02:00 stderr F ", ""),
    "containerd, partial": ("2026-04-24T06:29:19Z stdout P ", ""),
    "journald": ("Apr 24 06:29:19 gpu-node-7 sglang[1234]: ", ""),
    "journald, one digit": ("Apr  4 06:29:19 host python3[9]: ", ""),
    "journald short-iso": ("2026-04-24T06:29:19+0200 host sglang[1]: ", ""),
    "journald iso with colon": ("2026-04-24T06:29:19.123456+02:00 host sglang[1]: ", ""),
    "Ray": ("(SGLangEngine pid=4123) ", "SGLangEngine pid=4123"),
    "Ray, other node": ("(SGLangEngine pid=4123, ip=10.0.0.7) ", "SGLangEngine pid=4123, ip=10.0.0.7"),
    "Ray, nameless": ("(pid=77) ", "pid=77"),
    "srun --label": ("  3: ", "3"),
    "torchrun": ("[rank5]: ", "rank5"),
    "quoted in Markdown": ("> ", ""),
    "quoted twice": ("> > ", ""),
    "kubectl around compose": ("2026-04-24T06:29:19Z web-1 | ", "web-1"),
}


@pytest.mark.parametrize(("prefix", "process"), PREFIXES.values(), ids=PREFIXES)
def test_prefix_of_the_carrier_is_dropped(prefix: str, process: str) -> None:
    text = "".join(f"{prefix}{line}\n" for line in ("[2026-04-24 06:29:19 TP1] one", "[2026-04-24 06:29:20 TP1] two"))
    first, second = read_records(text)
    assert (first.rank, first.process, first.message) == ("TP1", process, "one")
    assert (second.line, second.time) == (2, "2026-04-24 06:29:20")


@pytest.mark.parametrize("prefix", [prefix for prefix, _ in PREFIXES.values() if prefix != "  3: "])
def test_traceback_behind_a_prefix_stays_one_record(prefix: str) -> None:
    record = read_record("".join(f"{prefix}{line}\n" for line in TRACEBACK.splitlines()))
    assert record.text == TRACEBACK.partition("] ")[2].rstrip("\n")


@pytest.mark.parametrize(
    "line",
    [
        "| NVIDIA-SMI 580.65   Driver Version: 580.65 |",
        "Name | Value",
        "100%|######| 3/3 [00:01<00:00]",
        "[rank0]:[W424 c10d] text",
        "a sentence: with a colon",
        "(not ray) text",
    ],
)
def test_prefix_near_miss_is_left_alone(line: str) -> None:
    assert strip_container(line.encode())[1].decode().endswith(line[-10:])
    assert read_records(line)[0].text.endswith(line[-10:])


def test_traceback_chain_is_one_record_with_its_line_numbers() -> None:
    record = read_record(TRACEBACK)
    assert record.kind == "traceback"
    assert [number for number, _ in record.lines] == list(range(1, 13))
    assert record.line_at(record.text.index("worse")) == (11, "RuntimeError: worse")
    assert record.line_at(10**9) == record.lines[-1]


def test_traceback_after_another_record_is_its_own() -> None:
    assert list_messages(
        '[2026-04-24 06:29:19] fine\nTraceback (most recent call last):\n  File "x", line 1, in f\nValueError: x\n'
    ) == [
        "fine",
        "Traceback (most recent call last):",
    ]


def test_traceback_announced_by_a_colon_belongs_to_its_message() -> None:
    assert (
        len(
            read_records(
                '[2026-04-24 06:29:19] Initialization failed. warmup error:\nTraceback (most recent call last):\n  File "x", line 1, in f\nValueError: x\n'
            )
        )
        == 1
    )


def test_interleaved_containers_are_told_apart() -> None:
    lines = TRACEBACK.splitlines()
    text = "".join(f"sglang-{number}  | {line.replace('TP0', f'TP{number}')}\n" for line in lines for number in (1, 2))
    first, second = read_records(text)
    assert (first.process, first.rank, second.process, second.rank) == ("sglang-1", "TP1", "sglang-2", "TP2")
    assert len(first.lines) == len(second.lines) == len(lines)


def test_carriage_returns_begin_pieces() -> None:
    assert (
        list_messages(
            "Loading:  50%|##  | 1/2 [00:01<00:01,  1.00it/s]\rLoading: 100%|####| 2/2 [00:02<00:00,  1.00it/s]\r[2026-04-24 06:29:19] Killed\n"
        )[-1]
        == "Killed"
    )


def test_record_glued_to_a_bar_is_found() -> None:
    assert (
        list_messages("Loading: 100%|####| 2/2 [00:02<00:00,  1.00it/s][2026-04-24 06:29:19 TP0] Load weight end.")[-1]
        == "Load weight end."
    )


def test_paste_without_newlines_is_split_before_every_time() -> None:
    text = (FIXTURES / "seed/offload_ram_exhausted.log").read_bytes()
    records = read_records(text)
    assert [record.message[:28] for record in records] == [
        "'w13_blockscale_swizzled', '",
        "[offloader] offload module_i",
        "[offloader] offload module_i",
        "[offloader] offload module_i",
        "Scheduler hit an exception: ",
    ]
    assert {record.line for record in records} == {1}


def test_time_quoted_inside_a_dump_does_not_split_it() -> None:
    dump = "[2026-04-24 06:29:19] server_args=ServerArgs(model_path='/m', note='seen [2026-04-24 06:00:00] before', tp_size=2)"
    assert list_messages(dump) == [dump.partition("] ")[2]]
    assert list_messages(dump + "[2026-04-24 06:29:20] Killed") == [dump.partition("] ")[2], "Killed"]


@pytest.mark.parametrize(
    "following",
    [
        "torch.OutOfMemoryError: CUDA out of memory.",
        "numactl: set_mempolicy: Invalid argument",
        '  File "x", line 1, in f',
        "Killed",
    ],
)
def test_line_after_a_dump_is_a_record_of_its_own(following: str) -> None:
    assert list_messages(f"server_args=ServerArgs(model_path='/m', tp_size=1)\n{following}\n")[-1] == following


@pytest.mark.parametrize(
    "line",
    [
        "    launch_server(server_args=server_args)",
        "self.server_args=server_args",
        "def run(server_args={}):".replace("{}", "None"),
    ],
)
def test_code_that_names_server_args_is_no_dump(line: str) -> None:
    records = read_records(f"{line}\nValueError: bad\n")
    assert [record.kind for record in records] == ["other"]
    assert len(records[0].lines) == 2


def test_request_in_the_middle_of_a_glued_paste_is_dropped_with_what_follows() -> None:
    text = (
        "[2026-04-24 06:29:18] fine"
        + " " * 150
        + "[2026-04-24 06:29:19] Receive: obj=GenerateReqInput(text='why [2026-04-24 06:00:00 TP0] "
        "torch.OutOfMemoryError: CUDA out of memory')\n[2026-04-24 06:29:20] next\n"
    )
    assert [message.strip() for message in list_messages(text)] == ["fine", "next"]


def test_continuation_of_a_request_is_dropped() -> None:
    text = "[2026-04-24 06:29:19] Receive: obj=GenerateReqInput(text='a\nCUDA out of memory\n')\n[2026-04-24 06:29:20] next\n"
    assert list_messages(text) == ["next"]


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        ('INFO:     127.0.0.1:52000 - "GET /model_info HTTP/1.1" 404 Not Found', "access"),
        ("[2026-04-24 06:29:19] server_args={'model_path': '/m'}", "server_args"),
        ("usage: launch_server.py [-h]", "usage"),
        ("[12345.678901] Out of memory: Killed process 77 (python3)", "kernel"),
        ("[Thu Apr 24 06:29:19 2026] NVRM: Xid (PCI:0000:01:00): 79", "kernel"),
        ("Apr 24 06:29:19 host kernel: Out of memory: Killed process 77 (python3)", "kernel"),
        ("2026-04-24T06:29:19+0200 host kernel: oom-kill:constraint=CONSTRAINT_NONE", "kernel"),
        ("Traceback (most recent call last):", "traceback"),
        ("Capturing batches (bs=8 avail_mem=5.32 GB):  50%|##  | 1/2 [00:01<00:01,  1.00it/s]", "progress"),
        ("[2026-04-24 06:29:19] Load weight begin. avail mem=78.53 GB", "other"),
        ("[2026-04-24 06:29:19] we log requests: GET /x", "other"),
    ],
)
def test_kind(line: str, kind: str) -> None:
    assert read_record(line).kind == kind


def test_warning_of_python_is_its_own_record() -> None:
    text = "[2026-04-24 06:29:19] before\n/a/b.py:215: UserWarning: Triton is not supported\n  warnings.warn(\n[rest] after\n"
    assert list_messages(text) == ["before", "/a/b.py:215: UserWarning: Triton is not supported", "[rest] after"]


def test_invalid_utf_8_is_shown_as_such() -> None:
    assert read_record(b"[2026-04-24 06:29:19] caf\xe9").message == "caf\ufffd"


def test_blank_lines_alone_are_no_record() -> None:
    assert read_records("\n\n  \n") == []


def test_blank_lines_at_the_end_of_a_record_are_dropped() -> None:
    assert read_record("[2026-04-24 06:29:19] one\n\n\n").lines == ((1, "one"),)


def test_record_without_end_keeps_its_first_and_last_lines() -> None:
    record = read_record("[2026-04-24 06:29:19] first\n" + "".join(f"  line {number}\n" for number in range(100_000)))
    assert record.message == "first"
    assert record.lines[-1] == (100_001, "  line 99999")
    assert len(record.lines) < 1200


def count_open(reader: RecordReader) -> tuple[int, int]:
    return len(reader._open), sum(len(line) for lines in reader._open.values() for _, line in lines)


def test_open_records_are_bounded_in_bytes() -> None:
    reader = RecordReader()
    for number in range(200):
        list(reader.feed([(number, b"  " + b"x" * 100_000)]))
        assert count_open(reader)[1] <= _MOST_OPEN
        assert count_open(reader)[1] == reader._size


def test_open_processes_are_bounded() -> None:
    reader = RecordReader()
    closed = [raw for number in range(10_000) for raw in reader.feed([(number, b"(Actor pid=%d) message" % number)])]
    assert count_open(reader)[0] <= _MOST_PROCESSES
    assert len(reader._last) <= _MOST_PROCESSES
    assert len(closed) + count_open(reader)[0] == 10_000


@given(
    st.lists(
        st.sampled_from(
            [
                "[2026-04-24 06:29:19] m",
                "  File",
                "Traceback (most recent call last):",
                "",
                "a-1  | x",
                "(X pid=1) y",
                "[rank0]: z",
                "> q",
                "\r",
            ]
        ),
        max_size=30,
    )
)
def test_every_line_is_in_one_record_in_order(lines: list[str]) -> None:
    records = read_records("\n".join(lines))
    for record in records:
        numbers = [number for number, _ in record.lines]
        assert numbers == sorted(numbers)
    told = {number for record in records for number, text in record.lines if text.strip()}
    assert told <= set(range(1, len(lines) + 1))
    assert {number for number, line in enumerate(lines, 1) if line.strip("\r> ") and line != "> q"} <= told


def test_shorten_keeps_first_lines_and_last_line() -> None:
    record = read_record(
        "[2026-04-24 06:29:19] first\n" + "".join(f"  line {number} {'x' * 5000}\n" for number in range(9))
    )
    short = record.shorten()
    assert [number for number, _ in short.lines] == [1, 2, 3, 10]
    assert all(len(text) <= 2000 for _, text in short.lines)
    assert (short.line, short.message, short.time) == (record.line, record.message, record.time)


def test_shorten_leaves_a_short_record_alone() -> None:
    record = read_record("[2026-04-24 06:29:19] first\n  second\n")
    assert record.shorten() is record

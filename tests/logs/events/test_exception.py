import pytest

from doctor.logs.events import exception
from doctor.logs.events.types import Frame
from tests.helpers import FIXTURES
from tests.logs.events.helpers import parse

CHAINED = """\
[2026-04-24 06:29:19 TP0] Scheduler hit an exception: Traceback (most recent call last):
  File "/sgl/a.py", line 10, in first
    first()
    ^^^^^^^
torch.AcceleratorError: CUDA error: invalid device ordinal
GPU device may be out of range, do you have enough GPUs?

For debugging consider passing CUDA_LAUNCH_BLOCKING=1

The above exception was the direct cause of the following exception:

Traceback (most recent call last):
  File "/sgl/b.py", line 20, in second
    second()
RuntimeError: wrapper

During handling of the above exception, another exception occurred:

Traceback (most recent call last):
  File "/sgl/c.py", line 30, in third
    third()
Exception: Capture cuda graph failed: x
Possible solutions:
1. set --mem-fraction-static to a smaller value
"""


def tell(text: str | bytes) -> list[list[tuple[str, str, str]]]:
    return [
        [(raised.type, raised.message.partition("\n")[0], raised.link) for raised in event.chain]
        for event in parse(exception, text)
    ]


def test_chain_in_printed_order_with_links() -> None:
    assert tell(CHAINED) == [
        [
            ("torch.AcceleratorError", "CUDA error: invalid device ordinal", ""),
            ("RuntimeError", "wrapper", "cause"),
            ("Exception", "Capture cuda graph failed: x", "context"),
        ]
    ]


def test_message_of_several_lines_is_whole() -> None:
    (event,) = parse(exception, CHAINED)
    assert event.chain[0].message.splitlines()[1] == "GPU device may be out of range, do you have enough GPUs?"
    assert event.chain[2].message.endswith("1. set --mem-fraction-static to a smaller value")


def test_frames_and_line_numbers() -> None:
    (event,) = parse(exception, CHAINED)
    assert event.chain[0].frames == (Frame("/sgl/a.py", 10, "first"),)
    assert [raised.line for raised in event.chain] == [5, 15, 22]
    assert not event.is_cut


@pytest.mark.parametrize(
    ("line", "kind", "message"),
    [
        ("ValueError: bad", "ValueError", "bad"),
        ("torch.OutOfMemoryError: CUDA out of memory. Tried", "torch.OutOfMemoryError", "CUDA out of memory. Tried"),
        ("huggingface_hub.errors.GatedRepoError: 403", "huggingface_hub.errors.GatedRepoError", "403"),
        (
            "triton.runtime.errors.OutOfResources: out of resource",
            "triton.runtime.errors.OutOfResources",
            "out of resource",
        ),
        ("E   RuntimeError: shown by pytest", "RuntimeError", "shown by pytest"),
        ("KeyboardInterrupt: stop", "KeyboardInterrupt", "stop"),
        (
            "[2026-05-02 04:11:09 DP3 TP3] Scheduler hit an exception: torch.AcceleratorError: CUDA error: bad",
            "torch.AcceleratorError",
            "CUDA error: bad",
        ),
        ("TpModelWorkerClient hit an exception: ValueError: bad", "ValueError", "bad"),
    ],
)
def test_bare_exception_line(line: str, kind: str, message: str) -> None:
    assert tell(line) == [[(kind, message, "")]]


@pytest.mark.parametrize(
    "line",
    [
        "error: ValueError",
        "my client hit an exception: ValueError: x",
        "an Error: happened",
        "Error",
        "MyErrors: x",
        "[2026-04-24 06:29:19] no Exception here",
        "  indented ValueError: x",
        "path/Error: x",
    ],
)
def test_bare_exception_near_miss(line: str) -> None:
    assert tell(line) == []


@pytest.mark.parametrize("name", ["KeyError", "SystemExit", "AssertionError", "torch.cuda.CudaError", "CustomThing"])
def test_exception_without_a_message(name: str) -> None:
    assert tell(f'Traceback (most recent call last):\n  File "x.py", line 1, in f\n    f()\n{name}\n') == [
        [(name, "", "")]
    ]


def test_exception_without_a_standard_name_counts_after_frames() -> None:
    assert tell(
        'Traceback (most recent call last):\n  File "x.py", line 1, in f\n    f()\nzmq.error.ZMQBindFault: taken\n'
    ) == [[("zmq.error.ZMQBindFault", "taken", "")]]


def test_traceback_that_ends_before_its_exception_is_cut() -> None:
    (event,) = parse(exception, CHAINED.partition("torch.Acc")[0])
    assert event.is_cut
    assert event.chain[0].frames[0].function == "first"


def test_second_traceback_that_is_cut() -> None:
    (event,) = parse(exception, CHAINED.partition("RuntimeError: wrapper")[0])
    assert [raised.type for raised in event.chain] == ["torch.AcceleratorError", ""]
    assert event.is_cut


def test_traceback_without_newlines() -> None:
    text = 'Scheduler hit an exception: Traceback (most recent call last): File "/a/b.py", line 7, in run self.f() ^^^ File "/a/c.py", line 9, in f raise ValueError(1) ValueError: bad thing'
    (event,) = parse(exception, text)
    assert (event.chain[0].type, event.chain[0].message) == ("ValueError", "bad thing")
    assert [frame.function for frame in event.chain[0].frames] == ["run", "f"]


def test_pasted_traceback_that_lost_newlines_and_end_is_cut() -> None:
    *_, event = parse(exception, (FIXTURES / "seed/offload_ram_exhausted.log").read_bytes())
    assert event.is_cut
    assert event.chain[0].frames[-1].function == "wrapper"


def test_traceback_whose_indentation_was_lost() -> None:
    text = 'Traceback (most recent call last):\nFile "x.py", line 1, in f\nf()\nValueError: bad\n'
    assert tell(text)[0][-1][:2] == ("ValueError", "bad")


def test_exception_group() -> None:
    text = '  + Exception Group Traceback (most recent call last):\n  |   File "x.py", line 1, in f\n  | ExceptionGroup: several (1 sub-exception)\n  +-+---------------- 1 ----------------\n    | Traceback (most recent call last):\n    |   File "y.py", line 2, in g\n    | ValueError: inner\n'
    kinds = [kind for chain in tell(text) for kind, _, _ in chain]
    assert kinds == ["ExceptionGroup", "ValueError"]


def test_frames_alone_are_a_cut_traceback() -> None:
    (event,) = parse(exception, '  File "x.py", line 1, in f\n    f()\n  File "y.py", line 2, in g\n')
    assert event.is_cut


def test_traceback_of_an_access_line_or_a_dump_is_none() -> None:
    assert tell("[2026-04-24 06:29:19] server_args=ServerArgs(note='ValueError: x')") == []
    assert tell('INFO: 1.1.1.1:1 - "GET /ValueError HTTP/1.1" 500 Internal Server Error') == []


# bounds


def test_message_is_bounded() -> None:
    (event,) = parse(exception, "ValueError: " + "x" * 500_000 + "\n" + "  more\n" * 1000)
    assert len(event.chain[0].message) < 30_000


def test_frames_are_bounded_and_keep_both_ends() -> None:
    frames = "".join(f'  File "x.py", line {number}, in f{number}\n' for number in range(400))
    (event,) = parse(exception, f"Traceback (most recent call last):\n{frames}RecursionError: deep\n")
    assert len(event.chain[0].frames) <= 180
    assert (event.chain[0].frames[0].function, event.chain[0].frames[-1].function) == ("f0", "f399")


def test_chain_is_bounded_and_keeps_both_ends() -> None:
    (event,) = parse(exception, "".join(f"ValueError: number {number}\n" for number in range(500)))
    assert len(event.chain) <= 40
    assert (event.chain[0].message, event.chain[-1].message) == ("number 0", "number 499")


def test_inline_frames_are_bounded() -> None:
    (event,) = parse(
        exception, "Traceback (most recent call last):" + ' File "x", line 1, in f' * 20_000 + " ValueError: bad"
    )
    assert len(event.chain[0].frames) <= 180
    assert event.chain[0].message == "bad"


@pytest.mark.parametrize("text", ["a" * 1_000_000, "a." * 500_000, "A" * 1_000_000, "E " * 500_000, 'File "' * 200_000])
def test_hostile_line_after_frames_ends_in_time(text: str) -> None:
    assert parse(exception, f'Traceback (most recent call last):\n  File "x", line 1, in f\n{text}\n')


def test_line_number_of_any_length_is_no_crash() -> None:
    assert parse(exception, f'Traceback (most recent call last):\n  File "x", line {"9" * 6000}, in f\nValueError: x\n')


@pytest.mark.parametrize("code", ["raise", "else:", "finally:", "self.run", "return x", "x = 1"])
def test_code_whose_indentation_was_lost_is_no_exception(code: str) -> None:
    assert tell(f'Traceback (most recent call last):\nFile "x.py", line 1, in f\n{code}\nValueError: bad\n') == [
        [("ValueError", "bad", "")]
    ]


@pytest.mark.parametrize(
    "kind", ["nixl._bindings.nixlBackendError", "struct.error", "socket.timeout", "socket.gaierror", "zlib.error"]
)
def test_exception_in_small_letters(kind: str) -> None:
    assert tell(f'Traceback (most recent call last):\n  File "x.py", line 1, in f\n    f()\n{kind}: bad\n') == [
        [(kind, "bad", "")]
    ]


def test_tail_of_a_traceback_without_indentation() -> None:
    (event,) = parse(
        exception,
        'File "/x/deepseek_v2.py", line 1453, in forward_core\nreturn self.forward()\nTypeError: missing 1 argument\n',
    )
    assert (event.chain[0].type, event.chain[0].frames) == (
        "TypeError",
        (Frame("/x/deepseek_v2.py", 1453, "forward_core"),),
    )


def test_plain_exception_line() -> None:
    assert tell("Exception: Capture cuda graph failed: reason") == [
        [("Exception", "Capture cuda graph failed: reason", "")]
    ]


def test_address_that_xinference_puts_in_is_dropped() -> None:
    assert tell("RuntimeError: [address=0.0.0.0:36451, pid=66] CUDA error") == [[("RuntimeError", "CUDA error", "")]]
    assert tell("RuntimeError: [something=1] stays") == [[("RuntimeError", "[something=1] stays", "")]]

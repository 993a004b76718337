"""Lines by kind, before any rule: batch lines, access lines and logged requests never reach one."""

from collections.abc import Iterable

import hypothesis.strategies as st
import pytest
from hypothesis import given

from doctor.logs.kinds import _FIRST, ECHO, Routed, Router, is_request_echo
from doctor.logs.lines import Block

STAMP = b"[2026-04-24 06:29:19 TP0] "
DECODE = (
    STAMP
    + b"Decode batch, #running-req: 1, #token: 40, token usage: 0.00, cuda graph: True, gen throughput (token/s): 5.33, #queue-req: 0"
)
ACCESS = b'[2026-04-24 06:29:19] INFO:     127.0.0.1:52000 - "POST /generate HTTP/1.1" 200 OK'
ERRORS = (
    b"torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. "
    b"RuntimeError: CUDA error: invalid device ordinal Received sigquit from a child process. Killed"
)


def route(*lines: bytes) -> Routed:
    return route_all(Router(), lines)


def route_all(router: Router, lines: Iterable[bytes]) -> Routed:
    pages = list(router.route(Block(b"".join(line + b"\n" for line in lines))))
    return Routed(
        [line for page in pages for line in page.others],
        sum(page.batches for page in pages),
        sum(page.accesses for page in pages),
    )


def start_at(number: int) -> Router:
    """A router that has seen lines up to this number, batch lines among them."""
    router = Router()
    route_all(router, [DECODE] * (number - 1))
    return router


BATCH_LINES = {
    "0.4.6": STAMP
    + b"Prefill batch. #new-seq: 1, #new-token: 7, #cached-token: 0, token usage: 0.00, #running-req: 0, #queue-req: 0",
    "0.4.10 with a comma at the end": STAMP
    + b"Decode batch. #running-req: 1, #token: 40, token usage: 0.00, cuda graph: True, gen throughput (token/s): 5.33, #queue-req: 0, ",
    "0.5.4 numbered": STAMP
    + b"Decode batch [1200], #running-req: 1, #token: 40, token usage: 0.00, cuda graph: True, gen throughput (token/s): 5.33, #queue-req: 0, ",
    "0.5.6": STAMP
    + b"Prefill batch, #new-seq: 1, #new-token: 7, #cached-token: 0, token usage: 0.00, #running-req: 0, #queue-req: 0, ",
    "0.5.12": STAMP
    + b"Prefill batch, #new-seq: 1, #new-token: 7, #cached-token: 0, token usage: 0.00, #running-req: 0, #queue-req: 0, #pending-token: 0, cuda graph: False, input throughput (token/s): 0.00",
    "0.5.23": DECODE,
    "two ranks, milliseconds": DECODE.replace(b":19 TP0", b":19.123 DP1 PP0 TP3"),
    "compose": b"sglang-1  | " + DECODE,
    "kubernetes": b"2026-04-24T06:29:19.123456789Z stdout F " + DECODE,
}


@pytest.mark.parametrize("line", BATCH_LINES.values(), ids=BATCH_LINES)
def test_batch_line_of_every_version_is_set_aside_and_kept_for_figures(line: bytes) -> None:
    router = Router()
    assert route_all(router, [line]) == Routed([], 1, 0)
    assert router.batches.kept == [(1, line)]


@pytest.mark.parametrize(
    "line",
    [
        ACCESS,
        b'INFO:     10.0.0.1:1 - "GET /health HTTP/1.1" 200 OK',
        b'sglang-1  | INFO:     10.0.0.1:1 - "GET /health HTTP/1.1" 200 OK',
    ],
)
def test_access_line_with_200_is_set_aside(line: bytes) -> None:
    assert route(line) == Routed([], 0, 1)


def test_access_line_with_another_status_is_passed_on() -> None:
    line = ACCESS.replace(b"200 OK", b"503 Service Unavailable")
    assert route(line).others == [(1, line)]


@pytest.mark.parametrize(
    "line",
    [
        DECODE + b"[2026-04-24 06:29:20 TP0] Scheduler hit an exception: Traceback (most recent call last):",
        ACCESS.removesuffix(b" OK") + b" OK[2026-04-24 06:29:20] Killed",
        b"[2026-04-24 06:29:19] Killed" + ACCESS,
        b"Decode batch, #running-req: nonsense without a time",
        STAMP + b"the word batch, #1 in prose",
        STAMP + b"Capture cuda graph batch [1, 2, 4]",
        DECODE + b" and more" * 200,
    ],
)
def test_line_that_may_hold_something_else_is_passed_on(line: bytes) -> None:
    assert route(line).others == [(1, line)]


ECHOES = {
    "0.4.6": b"[2026-04-24 06:29:19] Receive: obj=GenerateReqInput(text='" + ERRORS + b"', sampling_params={})",
    "finished": b"[2026-04-24 06:29:19] Finish: obj=GenerateReqInput(rid='1'), out={'text': '" + ERRORS + b"'}",
    "chat": b"[2026-04-24 06:29:19] Receive OpenAI: obj=ChatCompletionRequest(messages=[{'content': '"
    + ERRORS
    + b"'}])",
    "json": b'[2026-04-24 06:29:19] {"timestamp": "2026-04-24T06:29:19", "event": "request.received", "text": "'
    + ERRORS
    + b'"}',
    "compact json": b'{"timestamp":"2026-04-24T06:29:19","event":"request.finished","out":"' + ERRORS + b'"}',
    "short": b"[2026-04-24 06:29:19] Receive: obj=GenerateReqInput(text='Killed')",
    "behind a container": b"sglang-decode-0-7f9c  | [2026-04-24 06:29:19 DP0 TP0] Receive: obj=GenerateReqInput(text='"
    + ERRORS
    + b"')",
    "quoting records": b"[2026-04-24 06:29:19] Receive: obj=GenerateReqInput(text='[2026-04-24 06:29:18] Killed [2026-04-24 06:29:18 TP0] "
    + ERRORS
    + b"')",
    "quoting a batch line": b"[2026-04-24 06:29:19] Receive: obj=GenerateReqInput(text='" + DECODE + b"')",
}


@pytest.mark.parametrize("line", ECHOES.values(), ids=ECHOES)
def test_logged_request_is_never_passed_on(line: bytes) -> None:
    router = Router()
    routed = route_all(router, [line])
    assert [text for _, text in routed.others if text is not ECHO] == []
    assert router.batches.kept == []


def test_error_that_quotes_a_request_is_passed_on() -> None:
    line = STAMP + b"Scheduler hit an exception: " + b"x" * 200 + b" Receive: obj=GenerateReqInput(text='hi')"
    assert route(line).others == [(1, line)]


def test_one_byte_of_control_is_no_logged_request() -> None:
    routed = route(*b"a\x01b\x01".replace(b"a", b"").split(b"b"))
    assert not any(text is ECHO for _, text in routed.others)


def test_is_request_echo_near_miss() -> None:
    assert not is_request_echo(STAMP + b"Receive: object")


LINES = st.sampled_from(
    [
        DECODE,
        *BATCH_LINES.values(),
        *ECHOES.values(),
        ACCESS,
        DECODE + STAMP + b"Killed",
        STAMP + b"Killed",
        b"",
        b"Decode batch, #",
        b"x" * 24 + b'" 200 OK',
    ]
)


@given(st.lists(LINES, min_size=1, max_size=40), st.integers(1, 9), st.integers(_FIRST - 30, _FIRST + 10))
def test_routing_does_not_depend_on_where_blocks_begin(lines: list[bytes], size: int, first: int) -> None:
    """Around line 4,096 the careful way of the first lines turns into the fast one."""
    whole, parts = start_at(first), start_at(first)
    expected = route_all(whole, lines)
    found = [route_all(parts, lines[at : at + size]) for at in range(0, len(lines), size)]
    assert [line for routed in found for line in routed.others] == expected.others
    assert parts.batches.kept == whole.batches.kept
    assert sum(routed.batches for routed in found) == expected.batches
    assert sum(routed.accesses for routed in found) == expected.accesses


def test_batch_lines_are_kept_evenly_and_bounded() -> None:
    router = Router()
    routed = [route_all(router, [DECODE] * 1000) for _ in range(60)]
    numbers = [number for number, _ in router.batches.kept]
    assert numbers == list(range(64, 60_001, 64))
    assert sum(item.batches for item in routed) == 60_000


def test_few_batch_lines_are_all_kept() -> None:
    router = Router()
    route_all(router, [ACCESS, DECODE] * 500)
    assert [number for number, _ in router.batches.kept] == list(range(2, 1001, 2))


@given(st.lists(st.integers(1, 5000), min_size=1, max_size=6))
def test_kept_batch_lines_do_not_depend_on_where_blocks_begin(sizes: list[int]) -> None:
    whole, parts = Router(), Router()
    lines = [ACCESS if number % 3 == 0 else DECODE for number in range(sum(sizes))]
    route_all(whole, lines)
    at = 0
    for size in sizes:
        route_all(parts, lines[at : at + size])
        at += size
    assert parts.batches.kept == whole.batches.kept


def test_batch_line_with_a_record_at_its_end_is_found_on_the_fast_way() -> None:
    glued = DECODE + b"[2026-04-24 06:29:20] Killed"
    assert route_all(start_at(_FIRST), [DECODE, glued, ACCESS, b"Killed"]).others == [
        (_FIRST + 1, glued),
        (_FIRST + 3, b"Killed"),
    ]


def test_access_line_with_a_record_before_it_is_found_on_the_fast_way() -> None:
    short = b'[2026-04-24 06:29:19] INFO:     1.1.1.1:1 - "GET / HTTP/1.1" 200 OK'
    glued = [b"[2026-04-24 06:29:19] Killed" + short, b"[2026-04-24 06:29:19] INFO:     Killed" + short]
    assert route_all(start_at(_FIRST + 1), [ACCESS, *glued, short]).others == [
        (_FIRST + 2, glued[0]),
        (_FIRST + 3, glued[1]),
    ]


def test_piece_of_an_oversized_line_keeps_its_number() -> None:
    router = Router()
    pieces = [Block(b"x\n", continues=True), Block(b"", cut=7), Block(b"y\nz\n")]
    assert [line for piece in pieces for page in router.route(piece) for line in page.others] == [
        (1, b"x"),
        (1, b"y"),
        (2, b"z"),
    ]

"""Bytes to numbered lines: whatever the chunks, whatever they hold, in bounded memory."""

import hypothesis.strategies as st
from hypothesis import example, given, settings

from doctor.logs.lines import MAX_LINE, clean_bytes, read_blocks

PIECES = st.sampled_from(
    [
        b"\n",
        b"\r",
        b"\r\n",
        b"\0",
        b"\x1b[1;33m",
        b"\x1b[",
        b"\x1b",
        b"[20",
        b"[2026-04-24 06:29:19] x",
        b"a",
        b"\xff",
        b"\xe2\x80",
    ]
)
HOSTILE = st.lists(PIECES | st.binary(max_size=6), max_size=60).map(b"".join)


def cut(data: bytes, size: int) -> list[tuple[int, bytes]]:
    numbered, number = [], 1
    for block in read_blocks(data[at : at + size] for at in range(0, len(data), size)):
        lines = block.text.removesuffix(b"\n").split(b"\n") if block.text else []
        numbered += [(number + index, line) for index, line in enumerate(lines)]
        number += len(lines) - block.continues
    return numbered


def count_cut(data: bytes, size: int = 1 << 18) -> int:
    return sum(block.cut for block in read_blocks(data[at : at + size] for at in range(0, len(data), size)))


@given(HOSTILE, st.integers(1, 64))
@example(b"a\r\nb", 2)
@example(b"a\r\0\nb", 3)
@example(b"\x1b[1;33mx\x1b[0m\n", 4)
def test_lines_are_the_same_for_every_chunking(data: bytes, size: int) -> None:
    assert cut(data, size) == cut(data, len(data) or 1)


@settings(max_examples=20, deadline=None)
@given(st.integers(1, 64), st.integers(0, 5000))
def test_lines_of_a_real_mixture_are_the_same_for_chunks_of_1_to_64_kb(kilobytes: int, offset: int) -> None:
    text = b"".join(
        b"[2026-04-24 06:29:%02d TP%d] line %d\r\n" % (number % 60, number % 8, number) for number in range(6000)
    )
    text = text[offset:] + b"\r 10%|#\r 20%|##\n\x1b[1;33mwarning\x1b[0m\n" * 200
    assert cut(text, kilobytes * 1024) == cut(text, len(text))


@given(HOSTILE)
def test_lines_hold_no_newline_and_count_up_by_one(data: bytes) -> None:
    lines = cut(data, 7)
    assert [number for number, _ in lines] == list(range(1, len(lines) + 1))
    assert not any(b"\n" in line or b"\0" in line for _, line in lines)


@given(HOSTILE)
def test_numbers_are_those_of_an_editor(data: bytes) -> None:
    whole = data.removesuffix(b"\n")
    assert len(cut(data, 5)) == (whole.count(b"\n") + 1 if data else 0)


def test_line_without_newline_at_the_end_is_a_line() -> None:
    assert cut(b"one\ntwo", 3) == [(1, b"one"), (2, b"two")]


def test_empty_input_has_no_lines() -> None:
    assert cut(b"", 1) == []


def test_blank_lines_keep_their_numbers() -> None:
    assert cut(b"\n\nthree\n", 64) == [(1, b""), (2, b""), (3, b"three")]


def test_crlf_is_a_newline() -> None:
    assert cut(b"one\r\ntwo\r\n", 4) == [(1, b"one"), (2, b"two")]


def test_carriage_returns_of_bars_stay_in_one_line() -> None:
    assert cut(b" 10%|#\r 20%|##\rdone\n", 64) == [(1, b" 10%|#\r 20%|##\rdone")]


def test_colours_titles_and_nuls_are_dropped() -> None:
    assert cut(b"\x1b[1;33mred\x1b[0m \x1b]0;title\x07x\0\0y\x1b(B\n", 64) == [(1, b"red xy\x1b(B")]


def test_escape_at_the_end_of_input_is_harmless() -> None:
    assert cut(b"x\x1b", 1) == [(1, b"x\x1b")]


def test_title_without_an_end_takes_its_line_alone() -> None:
    assert cut(b"a\x1b]0;" + b"t" * 100 + b"\nb\n", 9) == [(1, b"a"), (2, b"b")]


def test_line_of_20_mb_is_cut_to_one_and_counted() -> None:
    data = b"first\n" + b"x" * 20_000_000 + b"\nlast\n"
    lines = cut(data, 1 << 18)
    assert [(number, len(line)) for number, line in lines if line] == [(1, 5), (2, MAX_LINE), (3, 4)]
    assert count_cut(data) == 20_000_000 - MAX_LINE


def test_line_of_20_mb_at_the_end_is_counted() -> None:
    assert count_cut(b"x" * 20_000_000) == 20_000_000 - MAX_LINE


def test_long_line_of_glued_records_loses_nothing() -> None:
    record = b"[2026-04-24 06:29:19 TP0] a record of a paste that lost its newlines"
    data = record * (3 * MAX_LINE // len(record)) + b"\nlast\n"
    lines = cut(data, 1 << 16)
    assert b"".join(line for number, line in lines if number == 1) == data.partition(b"\n")[0]
    assert lines[-1] == (2, b"last")
    assert count_cut(data) == 0


def test_record_after_an_oversized_one_is_found_on_the_same_line() -> None:
    data = b"[2026-04-24 06:29:19] " + b"x" * (2 * MAX_LINE) + b"[2026-04-24 06:29:20] Killed\n"
    assert (1, b"[2026-04-24 06:29:20] Killed") in cut(data, 1 << 16)


def test_bar_of_many_megabytes_loses_nothing() -> None:
    data = b"\r 50%|#####" * 300_000 + b"\n"
    pieces = [line for number, line in cut(data, 1 << 16) if number == 1]
    assert sum(piece.count(b"50%") for piece in pieces) == 300_000
    assert max(map(len, pieces)) <= MAX_LINE


def test_oversized_lines_are_the_same_in_one_chunk_and_in_many() -> None:
    data = b"a\n" + b"y" * (3 * MAX_LINE) + b"\rbar\n" + b"[2026-04-24 06:29:19] z" * 80_000 + b"\nend"
    assert {number: b"".join(line for n, line in cut(data, 1 << 16) if n == number) for number in range(1, 6)} == {
        number: b"".join(line for n, line in cut(data, len(data)) if n == number) for number in range(1, 6)
    }


def test_chunk_above_the_longest_line_is_bounded_too() -> None:
    assert max(len(line) for _, line in cut(b"x\n" + b"y" * (MAX_LINE + 5) + b"\nz\n", 1 << 25)) == MAX_LINE


def test_clean_bytes_leaves_plain_text_alone() -> None:
    assert clean_bytes(b"plain \xff text") == b"plain \xff text"

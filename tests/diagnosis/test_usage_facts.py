"""argparse's verdicts in the words of facts: which flag, why, and what was probably meant."""

import hypothesis.strategies as st
import pytest
from hypothesis import given

from doctor.diagnosis.usage_facts import find_first_version, find_typed_facts, find_usage_facts
from doctor.launch.command import parse_command
from doctor.launch.flags import known_versions, load_table

NEWEST = load_table("0.5.23")
OLD = load_table("0.5.2")


def read(message: str, table=NEWEST) -> dict:
    return {name.removeprefix("usage."): value for name, value in find_usage_facts(message, table).items()}


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        (
            "unrecognized arguments: --tensor-parralel-size 2",
            {
                "kind": "misspelt",
                "flag": "--tensor-parralel-size",
                "value": "2",
                "nearest": "--tensor-parallel-size",
                "others": 0,
            },
        ),
        (
            "unrecognized arguments: --tp_size=2",
            {"kind": "underscore", "flag": "--tp_size", "value": "2", "nearest": "--tp-size"},
        ),
        (
            "unrecognized arguments: --gpu-memory-utilization 0.9",
            {"kind": "foreign", "nearest": "--mem-fraction-static", "value": "0.9"},
        ),
        ("unrecognized arguments: --zzzzqqqq-xxxx", {"kind": "unknown", "flag": "--zzzzqqqq-xxxx"}),
        ("unrecognized arguments: stray words", {"kind": "positional", "value": "stray"}),
        ("unrecognized arguments:  ", {"kind": "positional"}),
        ("unrecognized arguments: --aaaa-x --bbbb-y --cccc-z", {"flag": "--aaaa-x", "others": 2}),
        (
            "ambiguous option: --disable could match --disable-radix-cache, --disable-cuda-graph",
            {"kind": "ambiguous", "flag": "--disable", "candidates": ["--disable-radix-cache", "--disable-cuda-graph"]},
        ),
        (
            "ambiguous option: --tp=2 could match --tp-size, --tp-x",
            {"kind": "ambiguous", "flag": "--tp", "nearest": "--tp-size"},
        ),
        (
            "argument --attention-backend: invalid choice: 'flashinferr' (choose from 'triton', 'flashinfer', 'fa3')",
            {
                "kind": "choice",
                "flag": "--attention-backend",
                "value": "flashinferr",
                "nearest": "flashinfer",
                "choices": ["triton", "flashinfer", "fa3"],
            },
        ),
        (
            "argument --dtype: invalid choice: 'bf16' (choose from auto, half, float16, bfloat16)",
            {"kind": "choice", "nearest": "bfloat16"},
        ),
        (
            "argument --tp-size/--tensor-parallel-size: invalid int value: 'two'",
            {"kind": "type", "flag": "--tp-size", "type": "int", "value": "two", "nearest": "2"},
        ),
        ("argument --context-length: invalid int value: '32k'", {"kind": "type", "nearest": "32768"}),
        ("argument --mem-fraction-static: invalid float value: '80%'", {"kind": "type", "nearest": "0.8"}),
        ("argument --mem-fraction-static: invalid float value: '0,8'", {"kind": "type", "nearest": "0.8"}),
        (
            "argument --port: expected one argument",
            {"kind": "missing-value", "flag": "--port", "wanted": "one argument"},
        ),
        (
            "argument --cuda-graph-bs: expected at least one argument",
            {"kind": "missing-value", "wanted": "at least one argument"},
        ),
        (
            "argument --trust-remote-code: ignored explicit argument 'true'",
            {"kind": "explicit", "flag": "--trust-remote-code", "value": "true"},
        ),
        ("the following arguments are required: --model-path/--model", {"kind": "required", "flag": "--model-path"}),
        ("something that nobody foresaw", {"kind": "other", "message": "something that nobody foresaw"}),
    ],
)
def test_message(message: str, expected: dict) -> None:
    found = read(message)
    assert {name: found.get(name) for name in expected} == expected


def find_gone() -> str:
    """A flag that 0.5.2 has and the newest version has not."""
    return next(
        name
        for name in OLD.options
        if name not in NEWEST.options and read(f"unrecognized arguments: {name}")["kind"] == "removed"
    )


def test_removed_flag_names_its_last_version() -> None:
    found = read(f"unrecognized arguments: {find_gone()} 1")
    assert found["kind"] == "removed"
    assert found["last"] in known_versions()


def find_new() -> str:
    return next(
        name
        for name in NEWEST.options
        if name not in OLD.options and read(f"unrecognized arguments: {name}", OLD)["kind"] == "newer"
    )


def test_newer_flag_names_its_first_version() -> None:
    found = read(f"unrecognized arguments: {find_new()} 1", OLD)
    assert found["kind"] == "newer"
    assert found["since"] in known_versions()


def test_flag_that_the_assumed_version_has_was_refused_by_an_older_one() -> None:
    assert read("unrecognized arguments: --tp-size 2")["kind"] == "newer"


def test_first_version_of_a_flag_that_all_have_is_not_known() -> None:
    assert find_first_version("--tp-size") is None
    assert find_first_version("--no-such-flag") is None


@pytest.mark.parametrize(
    "message",
    [
        "unrecognized arguments: ",
        "unrecognized arguments: --",
        "unrecognized arguments: -",
        "unrecognized arguments: =",
        "unrecognized arguments: --=x",
        "ambiguous option: -- could match ",
        "ambiguous option: --t could match ,",
        "argument : invalid choice: '' (choose from )",
        "argument --x: invalid choice: 'y' (choose from '', '')",
        "argument --x: invalid int value: ''",
        "argument --x: invalid float value: '%'",
        "argument --x: invalid <lambda> value: 'x'",
        "the following arguments are required: ,",
        "",
    ],
)
def test_message_without_its_words_is_no_crash(message: str) -> None:
    assert read(message)["kind"]


@pytest.mark.parametrize(
    "message",
    [
        "unrecognized arguments: " + "--a" * 50_000,
        "argument --x: invalid choice: 'y' (choose from " + "'a', " * 20_000,
        "ambiguous option: --a could match " + "--b, " * 20_000,
        "unrecognized arguments: " + "--x_y " * 20_000,
    ],
)
def test_message_of_any_length_ends_in_time(message: str) -> None:
    assert len(read(message)["message"]) <= 300


@given(
    st.sampled_from(
        [
            "unrecognized arguments: ",
            "ambiguous option: ",
            "argument --tp: invalid choice: ",
            "argument --tp: invalid int value: ",
            "the following arguments are required: ",
            "",
        ]
    ),
    st.text(max_size=60),
)
def test_any_message_is_read(begin: str, rest: str) -> None:
    assert all(value is not None for value in find_usage_facts(begin + rest, NEWEST).values())


# what the command shows beside


def test_typed_value_of_an_ambiguous_flag() -> None:
    command = parse_command("sglang serve --model-path m --disable 1")
    assert find_typed_facts({"usage.kind": "ambiguous", "usage.flag": "--disable"}, command, NEWEST) == {
        "usage.value": "1"
    }


def test_typed_switch_in_front_of_a_stray_word() -> None:
    command = parse_command("sglang serve --model-path m --trust-remote-code true")
    assert find_typed_facts({"usage.kind": "positional", "usage.value": "true"}, command, NEWEST) == {
        "usage.flag": "--trust-remote-code"
    }


def test_typed_facts_near_miss_no_such_flag() -> None:
    command = parse_command("sglang serve --model-path m")
    assert find_typed_facts({"usage.kind": "ambiguous", "usage.flag": "--x"}, command, NEWEST) == {"usage.value": None}
    assert find_typed_facts({"usage.kind": "choice"}, command, NEWEST) == {}

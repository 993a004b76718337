"""Fixes: a command that the check of launch commands refuses is not printed."""

import pytest

from doctor.diagnosis.rule import EditTemplate, FixTemplate
from tests.diagnosis.helpers import explain, make_rule, write

CPU = "sglang serve m --device cpu"


def fix(name: str, to: str | None) -> FixTemplate:
    return FixTemplate(f"{name} {to}", "review", "", "", "", (EditTemplate("flag", (name,), to),))


def list_commands(command: str, *fixes: FixTemplate) -> list[str | None]:
    rule = make_rule("AAA001", "engine burns")._replace(fixes=fixes)
    (diagnosis,) = explain([rule], write("engine burns"), command).diagnoses
    return [item.command for item in diagnosis.fixes]


def test_fix_that_the_launch_check_accepts_is_printed() -> None:
    assert list_commands(CPU, fix("--attention-backend", "torch_native")) == [f"{CPU} --attention-backend torch_native"]


def test_fix_that_brings_an_error_is_left_out() -> None:
    assert list_commands(CPU, fix("--attention-backend", "flashinfer"), fix("--tp-size", "2")) == [f"{CPU} --tp-size 2"]


def test_fix_that_leaves_an_error_in_the_flag_it_sets_is_left_out() -> None:
    command = f"{CPU} --attention-backend fa3"
    fixes = fix("--attention-backend", "triton"), fix("--attention-backend", None)
    assert list_commands(command, *fixes) == [CPU]


def test_fix_that_changes_nothing_is_left_out() -> None:
    assert list_commands(CPU, fix("--attention-backend", None), fix("--device", "cpu")) == []


def test_fix_of_another_flag_stays_beside_an_old_error() -> None:
    command = f"{CPU} --attention-backend fa3"
    assert list_commands(command, fix("--tp-size", "2")) == [f"{command} --tp-size 2"]


def test_fix_of_a_launch_that_was_not_read_as_typed_is_printed() -> None:
    assert list_commands("sglang serve m –device cpu", fix("--device", "cpu")) == [CPU]


@pytest.mark.parametrize(
    "value",
    [
        "the FP8 checkpoint",
        "an AWQ checkpoint",
        "your token",
        "namespace/name",
        "/path/to/model",
        "HEAD_IPV4:20000",
        "http://PROXY:PORT",
        "/models/NAME",
    ],
)
def test_fix_that_a_person_has_to_complete_prints_no_command(value: str) -> None:
    assert list_commands(CPU, fix("--tokenizer-path", value)) == [None]

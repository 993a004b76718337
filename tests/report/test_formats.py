"""All formats over one corpus, letter by letter: `expected/NAME.txt`, `.json` and `.md`, and in colour for one."""

import json
import re
from pathlib import Path

import pytest

from doctor import __version__
from doctor.errors import DoctorError
from doctor.report.interface import FORMATS, Target, load_renderer
from doctor.report.words import summarise
from tests.report.conftest import CORPUS, EMPTY, ROOT

EXPECTED = Path(__file__).with_name("expected")
SUFFIXES = {"text": "txt", "json": "json", "markdown": "md"}


def render(name: str, kind: str, target: Target = Target()) -> str:  # noqa: B008 - frozen
    return load_renderer(kind).render(CORPUS[name], target).replace(__version__, "VERSION")


@pytest.mark.parametrize("kind", SUFFIXES)
@pytest.mark.parametrize("name", CORPUS)
def test_report_is_as_expected(name: str, kind: str) -> None:
    assert render(name, kind) == (EXPECTED / f"{name}.{SUFFIXES[kind]}").read_text("utf-8")


def test_report_in_colour_is_as_expected() -> None:
    assert render("failure", "text", Target(80, color=True)) == (EXPECTED / "failure.colour.txt").read_text("utf-8")


@pytest.mark.parametrize("name", CORPUS)
def test_colour_changes_no_letter(name: str) -> None:
    coloured = render(name, "text", Target(100, color=True))
    assert re.sub(r"\x1b\[[0-9;]*m", "", coloured) == render(name, "text")


@pytest.mark.parametrize("kind", SUFFIXES)
@pytest.mark.parametrize("name", CORPUS)
def test_report_holds_no_control_characters(name: str, kind: str) -> None:
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]", render(name, kind))


@pytest.mark.parametrize("name", CORPUS)
def test_json_keeps_the_contract(name: str) -> None:
    document = json.loads(render(name, "json"))
    assert list(document) == [
        "schema_version",
        "tool_version",
        "input",
        "verdict",
        "phase",
        "diagnoses",
        "missing",
        "facts",
        "command",
    ]
    for item in document["diagnoses"]:
        assert set(item) == {
            "rule",
            "name",
            "title",
            "role",
            "severity",
            "confidence",
            "ranks",
            "count",
            "cause",
            "why",
            "evidence",
            "fixes",
            "recoverable",
        }
        assert all(set(line) == {"file", "line", "text", "timestamp", "rank"} for line in item["evidence"])
        assert all(
            set(fix) == {"title", "safety", "edits", "command", "valid_for", "why", "verify"} for fix in item["fixes"]
        )
        assert all(set(edit) == {"kind", "name", "from", "to"} for fix in item["fixes"] for edit in fix["edits"])


@pytest.mark.parametrize("width", [0, 1, 40, 79, 120])
def test_text_is_wrapped_to_the_width_where_words_allow(width: int) -> None:
    headline, *lines = render("incomplete", "text", Target(width)).splitlines()
    assert headline.startswith("INCOMPLETE")
    assert all(len(line) <= max(40, width) or len(line.split()) == 1 for line in lines)


def test_commands_are_never_wrapped() -> None:
    assert (
        f"  CUDA_VISIBLE_DEVICES=0,1,2,3,4,5,6,7 {CORPUS['failure'].command}"
        in render("failure", "text", Target(40)).splitlines()
    )


def test_markdown_fence_outlasts_the_backticks_inside() -> None:
    lines = render("hostile", "markdown").splitlines()
    opening = lines.index("`````text")
    assert [line for line in lines[opening + 1 :] if line.startswith("`````")] == ["`````"]


def test_markdown_heading_is_one_line_without_markup() -> None:
    heading = render("hostile", "markdown").splitlines()[0]
    assert (
        heading
        == "### SGLang doctor: \\# @\u200bsomeone \\<b\\>bold\\</b\\> \\[link\\](http://x) \\`code\\` \\*stars\\* ---"
    )


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("failure", "doctor: failure: GPU002 more-ranks-than-visible-gpus (confirmed)"),
        ("incomplete", "doctor: incomplete: the cause is not in this input"),
        ("healthy", "doctor: healthy: nothing in this log points to a failure"),
        ("unknown", "doctor: unknown: this does not look like the output of an SGLang server"),
    ],
)
def test_summary_is_one_line(name: str, line: str) -> None:
    assert summarise(CORPUS[name]) == line


def test_evidence_of_a_file_that_is_not_listed_has_no_name() -> None:
    report = EMPTY._replace(diagnoses=(ROOT,), verdict="failure")
    assert json.loads(load_renderer("json").render(report, Target()))["diagnoses"][0]["evidence"][0]["file"] == ""


@pytest.mark.parametrize(
    "values",
    [
        {"offload_group_size": "12", "offload_num_in_group": [1]},
        {"tp_size": "x"},
        {"model_path": ["a"]},
        {"model_path": "/"},
        {"cpu_offload_gb": "x", "nnodes": None},
    ],
)
def test_launch_with_values_of_odd_types_is_shown(values: dict) -> None:
    report = EMPTY._replace(facts={"launch": {"model_path": "/m", **values}})
    for kind in FORMATS:
        assert load_renderer(kind).render(report, Target())


def test_unknown_format() -> None:
    with pytest.raises(DoctorError, match="unknown format 'xml'"):
        load_renderer("xml")

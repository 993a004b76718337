"""The formats of a check: any text, one sample in each, and what they count."""

import json
import xml.etree.ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st

from doctor.probes.base.result import Result
from doctor.report.check_json import render as render_json
from doctor.report.check_junit import render as render_junit
from doctor.report.check_markdown import render as render_markdown
from doctor.report.check_report import CheckReport, clean_result
from doctor.report.check_text import render as render_text
from doctor.report.interface import Target

RENDERERS = {"text": render_text, "json": render_json, "markdown": render_markdown, "junit": render_junit}
TEXT = st.text(max_size=40)

RESULTS = st.builds(
    Result,
    st.sampled_from(["ports", "fit"]),
    st.sampled_from(["ok", "problem", "not-applicable", "unknown"]),
    TEXT,
    st.sampled_from(["error", "warning", "info"]),
    st.lists(TEXT, max_size=2).map(tuple),
    st.lists(TEXT, max_size=2).map(tuple),
    st.just(()),
    TEXT,
    st.lists(st.tuples(TEXT, TEXT), max_size=2).map(tuple),
)


@given(st.lists(RESULTS, max_size=4))
def test_every_format_writes_any_text(results):
    report = CheckReport(tuple(map(clean_result, results)), {}, "python", "", "x", None, 0.1)
    ET.fromstring(RENDERERS["junit"](report, Target()))  # noqa: S314 - our own output
    assert json.loads(RENDERERS["json"](report, Target()))["schema_version"] == 1
    for name in ("text", "markdown"):
        written = RENDERERS[name](report, Target())
        assert "\x1b" not in written


SAMPLE = CheckReport(
    (
        Result("ports", "ok", "free: 127.0.0.1:30000"),
        Result("fit", "problem", "no room", "error", ("KV cache: 0 B",), ("--tp-size 2",)),
        Result("hub", "unknown", "the hub answers", reason="--online was not given"),
        Result("xid", "not-applicable", "no GPU"),
    ),
    {"ports": "network", "fit": "launch", "hub": "network", "xid": "gpu"},
    "/venv/bin/python (the launch command)",
    "0.5.23",
    "sglang serve --model-path m",
    "sglang serve --model-path m --tp-size 2",
    0.25,
)


def test_text_puts_problems_first():
    assert render_text(SAMPLE, Target()) == (
        "CHECK: 1 error; 1 could not be checked; 1 ok\n"
        "Python of the launch: /venv/bin/python (the launch command), SGLang 0.5.23\n"
        "\n"
        "ERROR: no room [fit]\n"
        "    KV cache: 0 B\n"
        "  -> --tp-size 2\n"
        "\n"
        "Corrected command\n"
        "  sglang serve --model-path m --tp-size 2\n"
        "\n"
        "Could not check\n"
        "  hub: the hub answers: because --online was not given\n"
        "\n"
        "OK\n"
        "  ports: free: 127.0.0.1:30000\n"
        "\n"
        "not applicable here: xid\n"
    )


def test_text_names_one_reason_once():
    rows = [Result(name, "unknown", "all is well", reason="it runs elsewhere") for name in ("disk", "limits")]
    written = render_text(SAMPLE._replace(results=tuple(rows)), Target())
    assert "Could not check\n  disk, limits: because it runs elsewhere\n" in written


@pytest.mark.parametrize(
    ("version", "words"),
    [("0.5.23", ", SGLang 0.5.23\n"), ("", ", SGLang not installed\n"), (None, "launch command)\n")],
)
def test_text_calls_sglang_missing_only_where_somebody_looked(version, words):
    assert words in render_text(SAMPLE._replace(version=version), Target())
    assert ("not installed" in render_markdown(SAMPLE._replace(version=version), Target())) is (version == "")


def test_text_is_coloured_only_where_the_target_is():
    assert "\x1b[1;31m" in render_text(SAMPLE, Target(color=True))


def test_junit_counts_failures_and_skipped():
    suite = ET.fromstring(render_junit(SAMPLE, Target()))  # noqa: S314 - our own output
    assert suite.attrib["tests"] == "4"
    assert (suite.attrib["failures"], suite.attrib["skipped"]) == ("1", "2")
    assert suite.find(".//failure").attrib["message"] == "no room"


def test_markdown_has_the_sections_of_a_bug_report():
    written = render_markdown(SAMPLE, Target())
    for title in ("**Reproduction**", "**Corrected command**", "**Environment**", "Could not check (1)"):
        assert title in written


def test_json_names_the_reason_in_full():
    data = json.loads(render_json(SAMPLE, Target()))
    assert data["results"][2]["reason"] == "could not check because --online was not given"
    assert data["summary"]["error"] == 1

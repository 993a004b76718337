"""Which rules hold: matches of every kind of event, each kind of condition with a near miss, captures and versions."""

import pytest

from doctor.diagnosis.findings import read_value
from doctor.diagnosis.lint import _MOST_COUNTED
from doctor.diagnosis.observe import _KEEP_HITS
from doctor.diagnosis.rule import Condition, Match
from tests.diagnosis.helpers import explain, find, make_rule, write

FILLER = [f"line {number}" for number in range(30)]


def with_condition(kind: str, *keywords: str, **bounds: object):
    return [make_rule("AAA001", "engine burns", conditions=(Condition(kind, keywords, **bounds),))]


# matches


def test_line_with_its_keyword() -> None:
    assert find([make_rule("AAA001", "engine burns")], write("the engine burns")) == ["root AAA001"]


@pytest.mark.parametrize("text", [write("the Engine burns"), write("engine", "burns"), ""])
def test_line_near_miss(text: str) -> None:
    assert find([make_rule("AAA001", "engine burns")], text) == []


def test_all_keywords_of_a_match_must_be_in_the_record() -> None:
    rules = [make_rule("AAA001", "engine burns", "at noon")]
    assert find(rules, write("engine burns\n  at noon")) == ["root AAA001"]
    assert find(rules, write("engine burns", "at noon")) == []


def test_pattern_captures_are_facts() -> None:
    rules = [
        make_rule(
            "AAA001",
            "engine burns",
            pattern=r"engine burns at (?P<degrees>\d+)",
            when="degrees > 90",
            title="{degrees} degrees on {rank}",
        )
    ]
    assert explain(rules, write("TP3: engine burns at 100")).diagnoses[0].title == "100 degrees on TP3"
    assert find(rules, write("engine burns at 80")) == []
    assert find(rules, write("engine burns at noon")) == []


def test_pattern_anchors_at_every_line_of_a_record() -> None:
    assert find(
        [make_rule("AAA001", "engine burns", pattern="^engine burns$")], write("first\nengine burns\nlast")
    ) == ["root AAA001"]


def test_exception_of_a_chain_is_matched_by_type_and_message() -> None:
    rules = [make_rule("AAA001", "engine burns", event="exception", pattern="^ValueError: the engine burns")]
    trace = (
        'Traceback (most recent call last):\n  File "/sgl/engine.py", line 1, in burn\nValueError: the engine burns\n'
    )
    assert find(rules, trace) == ["root AAA001"]
    assert find(rules, trace.replace("ValueError", "KeyError"))[:1] == ["root GEN001"]
    assert find(rules, write("a line that says ValueError: the engine burns")) == []


def test_frame_limits_where_an_exception_comes_from() -> None:
    rules = [make_rule("AAA001", "engine burns", event="exception", frame=r"/engine\.py burn$")]
    trace = (
        'Traceback (most recent call last):\n  File "/sgl/engine.py", line 1, in burn\nValueError: the engine burns\n'
    )
    assert find(rules, trace) == ["root AAA001"]
    assert find(rules, trace.replace("in burn", "in start")) == ["root GEN001"]


def test_usage_error_is_matched_by_its_message() -> None:
    rules = [
        make_rule(
            "AAA001",
            "unrecognized arguments",
            event="usage",
            when="usage.nearest == '--tp-size'",
            title="{usage.flag} is {usage.nearest}",
        )
    ]
    assert (
        explain(rules, "usage: x\nsglang serve: error: unrecognized arguments: --tp_size 2\n").diagnoses[0].title
        == "--tp_size is --tp-size"
    )
    assert find(rules, "sglang serve: error: unrecognized arguments: --zzzzzzzz 2\n") == []


def test_kernel_record() -> None:
    rules = [make_rule("AAA001", "NVRM: Xid", event="kernel")]
    assert find(rules, "[12.345678] NVRM: Xid (PCI:0): 79\n") == ["root AAA001"]
    assert find(rules, write("somebody quotes NVRM: Xid (PCI:0): 79")) == []


def test_facts_alone_with_their_evidence() -> None:
    rules = [
        make_rule(
            "AAA001",
            event="facts",
            when="mem.before_load is not None and mem.before_load < 1",
            evidence=("mem.before_load",),
        )
    ]
    report = explain(rules, write("Load weight begin. avail mem=0.53 GB"))
    assert [(item.rule, item.evidence[0].line) for item in report.diagnoses] == [("AAA001", 1)]
    assert find(rules, write("Load weight begin. avail mem=5.30 GB")) == []


def test_facts_that_no_line_shows_have_no_evidence() -> None:
    report = explain([make_rule("AAA001", event="facts", when="response.degenerate")], "", response__degenerate=True)
    assert report.diagnoses[0].evidence == ()


def test_facts_without_a_condition_never_hold() -> None:
    assert find([make_rule("AAA001", event="facts")], write("anything")) == []


@pytest.mark.parametrize(
    "line",
    [
        "[2026-04-24 06:29:19] Receive: obj=GenerateReqInput(text='the engine burns')",
        "[2026-04-24 06:29:19] server_args=ServerArgs(model_path='engine burns')",
        '[2026-04-24 06:29:19] INFO:     1.1.1.1:1 - "GET /engine%20burns engine burns HTTP/1.1" 404 Not Found',
        "Loading engine burns:  50%|##  | 1/2 [00:01<00:01,  1.00it/s]",
    ],
)
def test_requests_dumps_access_lines_and_bars_are_never_matched(line: str) -> None:
    assert find([make_rule("AAA001", "engine burns")], f"{line}\n") == []


def test_phase_limits_a_match() -> None:
    rules = [make_rule("AAA001", "engine burns", phase=("load",))]
    assert find(rules, write("Load weight begin. avail mem=5 GB", "engine burns")) == ["root AAA001"]
    assert find(rules, write("Load weight end. avail mem=5 GB", "engine burns")) == []
    assert find(rules, write("engine burns")) == []


def test_phase_is_followed_for_each_rank() -> None:
    rules = [make_rule("AAA001", "engine burns", phase=("load",))]
    text = write(
        "TP0: Load weight begin. avail mem=5 GB",
        "TP1: Load weight begin. avail mem=5 GB",
        "TP0: Load weight end. avail mem=5 GB",
    )
    assert find(rules, text + write("TP1: engine burns")) == ["root AAA001"]
    assert find(rules, text + write("TP0: engine burns")) == []


@pytest.mark.parametrize(
    ("applies", "expected"), [("", True), (">=0.5.9", True), ("<0.5.9", False), (">=0.5.10", False)]
)
def test_version_limits_a_rule(applies: str, expected: bool) -> None:
    assert (
        bool(find([make_rule("AAA001", "engine burns", applies=applies)], write("sglang==0.5.9", "engine burns")))
        is expected
    )


def test_unknown_version_limits_nothing() -> None:
    assert find([make_rule("AAA001", "engine burns", applies=">=9")], write("engine burns")) == ["root AAA001"]


def test_ranks_and_times_are_counted() -> None:
    text = write(*(f"TP{number % 4}: engine burns" for number in range(60)))
    (item,) = explain([make_rule("AAA001", "engine burns")], text).diagnoses
    assert (item.ranks, item.times, len(item.evidence)) == (("TP0", "TP1", "TP2", "TP3"), 60, 6)


def test_several_matches_are_one_finding() -> None:
    rule = make_rule("AAA001", "engine burns")._replace(
        matches=(Match("line", ("engine burns",)), Match("line", ("wheel is lost",)))
    )
    (item,) = explain([rule], write("wheel is lost", "engine burns")).diagnoses
    assert [line.line for line in item.evidence] == [1, 2]


# conditions, each with its near miss


def test_none() -> None:
    rules = with_condition("none", "rain falls")
    assert find(rules, write("engine burns")) == ["root AAA001"]
    assert find(rules, write("engine burns", *FILLER, "rain falls")) == []


@pytest.mark.parametrize(
    "text",
    [write("rain falls", "engine burns"), write("engine burns", "rain falls"), write("engine burns\n  rain falls")],
)
def test_near_within_lines_on_either_side(text: str) -> None:
    assert find(with_condition("near", "rain falls", within_lines=5), text) == ["root AAA001"]


@pytest.mark.parametrize(
    "text",
    [write("rain falls", *FILLER, "engine burns"), write("engine burns"), write("engine burns", *FILLER, "rain falls")],
)
def test_near_within_lines_near_miss(text: str) -> None:
    assert find(with_condition("near", "rain falls", within_lines=5), text) == []


def test_near_within_seconds() -> None:
    rules = with_condition("near", "rain falls", within_seconds=3)
    assert find(rules, write("rain falls", "x", "x", "engine burns")) == ["root AAA001"]
    assert find(rules, write("rain falls", "x", "x", "x", "engine burns")) == []


def test_near_on_the_same_rank() -> None:
    rules = with_condition("near", "rain falls", same="rank", within_lines=5)
    assert find(rules, write("TP1: rain falls", "TP1: engine burns")) == ["root AAA001"]
    assert find(rules, write("TP0: rain falls", "TP1: engine burns")) == []


def test_near_in_the_same_process() -> None:
    rules = with_condition("near", "rain falls", same="process", within_lines=5)
    assert find(rules, "(A pid=1) rain falls\n(A pid=1) [2026-04-24 06:29:19] engine burns\n") == ["root AAA001"]
    assert find(rules, "(A pid=1) rain falls\n(A pid=2) [2026-04-24 06:29:19] engine burns\n") == []


def test_near_at_least() -> None:
    rules = with_condition("near", "rain falls", within_lines=9, at_least=2)
    assert find(rules, write("rain falls", "rain falls", "engine burns")) == ["root AAA001"]
    assert find(rules, write("rain falls", "engine burns")) == []


def test_sequence() -> None:
    rules = with_condition("sequence", "rain falls", within_lines=5)
    assert find(rules, write("rain falls", "engine burns")) == ["root AAA001"]
    assert find(rules, write("engine burns", "rain falls")) == []
    assert find(rules, write("rain falls", *FILLER, "engine burns")) == []


def test_count() -> None:
    rules = with_condition("count", at_least=3)
    assert find(rules, write(*["engine burns"] * 3)) == ["root AAA001"]
    assert find(rules, write(*["engine burns"] * 2)) == []


def test_count_goes_on_above_the_hits_that_are_kept() -> None:
    rules = with_condition("count", at_least=50)
    assert find(rules, write(*["engine burns"] * 50)) == ["root AAA001"]
    assert find(rules, write(*["engine burns"] * 49)) == []


@pytest.mark.parametrize("bounds", [{"within_lines": 5}, {"within_seconds": 5}])
def test_count_within_bounds(bounds: dict[str, int]) -> None:
    rules = with_condition("count", at_least=3, **bounds)
    assert find(rules, write("engine burns", *FILLER[:4], "engine burns", "engine burns")) == ["root AAA001"]
    assert find(rules, write("engine burns", *FILLER[:9], "engine burns", *FILLER[:9], "engine burns")) == []


def test_count_on_the_same_rank() -> None:
    rules = with_condition("count", at_least=2, same="rank")
    assert find(rules, write("TP1: engine burns", "TP0: engine burns", "TP1: engine burns")) == ["root AAA001"]
    assert find(rules, write("TP1: engine burns", "TP0: engine burns")) == []


def test_bounded_count_goes_up_to_the_hits_that_are_kept() -> None:
    text = write(*["engine burns"] * 50, *FILLER)
    assert find(with_condition("count", at_least=_MOST_COUNTED, within_lines=_MOST_COUNTED), text) == ["root AAA001"]
    assert _MOST_COUNTED == _KEEP_HITS


def test_count_of_one_start_only() -> None:
    rules = with_condition("count", at_least=3)
    start, death = "server_args=ServerArgs(model_path='/m')", "Subprocess x (pid=1) crashed with exit code -9."
    assert find(rules, write(start, "engine burns", "engine burns", death, start, "engine burns")) == []
    assert find(rules, write(start, death, start, *["engine burns"] * 3)) == ["root AAA001"]


def test_none_of_one_start_only() -> None:
    rules = with_condition("none", "rain falls")
    start, death = "server_args=ServerArgs(model_path='/m')", "Subprocess x (pid=1) crashed with exit code -9."
    assert find(rules, write(start, "rain falls", death, start, "engine burns")) == ["root AAA001"]
    assert find(rules, write(start, death, start, "rain falls", "engine burns")) == []


def test_absent_after() -> None:
    rules = with_condition("absent-after", "all is well")
    assert find(rules, write("all is well", "engine burns")) == ["root AAA001"]
    assert find(rules, write("engine burns", "all is well")) == []


def test_absent_after_on_the_same_rank() -> None:
    rules = with_condition("absent-after", "all is well", same="rank")
    assert find(rules, write("TP1: engine burns", "TP0: all is well")) == ["root AAA001"]
    assert find(rules, write("TP1: engine burns", "TP1: all is well")) == []


def test_repeat_without_progress() -> None:
    rules = with_condition("repeat-without-progress", "step done", at_least=3)
    assert find(rules, write(*["engine burns"] * 3)) == ["root AAA001"]
    assert find(rules, write("step done", *["engine burns"] * 3)) == ["root AAA001"]
    assert find(rules, write(*["engine burns"] * 2)) == []
    assert find(rules, write("engine burns", "engine burns", "step done", "engine burns")) == []


def test_all_conditions_must_hold() -> None:
    rules = [
        make_rule(
            "AAA001",
            "engine burns",
            conditions=(Condition("none", ("rain falls",)), Condition("near", ("smoke rises",), within_lines=9)),
        )
    ]
    assert find(rules, write("engine burns", "smoke rises")) == ["root AAA001"]
    assert find(rules, write("engine burns", "smoke rises", "rain falls")) == []
    assert find(rules, write("engine burns")) == []


def test_condition_with_a_pattern() -> None:
    rules = [
        make_rule(
            "AAA001",
            "engine burns",
            conditions=(Condition("near", ("rain falls",), r"rain falls \d+ mm", within_lines=9),),
        )
    ]
    assert find(rules, write("engine burns", "rain falls 5 mm")) == ["root AAA001"]
    assert find(rules, write("engine burns", "rain falls a lot")) == []


def test_when_sees_phase_rank_and_count() -> None:
    rules = [make_rule("AAA001", "engine burns", when="rank == 'TP1' and phase == 'load' and count == 2")]
    begin = write("TP1: Load weight begin. avail mem=5 GB")
    assert find(rules, begin + write("TP1: engine burns", "TP1: engine burns")) == ["root AAA001"]
    assert find(rules, begin + write("TP1: engine burns")) == []


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("12", 12),
        ("-3", -3),
        ("1.5", 1.5),
        ("-0.5", -0.5),
        ("abc", "abc"),
        ("inf", "inf"),
        ("nan", "nan"),
        ("", ""),
        ("1.2.3", "1.2.3"),
        ("٣", 3),
    ],
)
def test_capture_is_a_number_when_it_is_one(text: str, value: object) -> None:
    assert read_value(text) == value


def test_capture_of_any_length_is_no_crash() -> None:
    assert read_value("9" * 10_000)

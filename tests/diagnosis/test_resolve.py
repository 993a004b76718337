"""Root against cascade: one cause first, then what follows from it; starts and restarts told apart."""

import pytest

from doctor.diagnosis.rule import Match, Variant
from tests.diagnosis.helpers import explain, find, make_rule, write

BURNS = make_rule("AAA001", "engine burns")
STALLS = make_rule("BBB001", "engine stalls")
SMOKE = make_rule("CAS001", "smoke rises", role="cascade")
DUST = make_rule("NOI001", "dust settles", role="benign")
NOTE = make_rule("CTX001", "radio plays", role="context")
HINT = make_rule("CON001", "horn sounds", role="confirmation")
ALL = [BURNS, STALLS, SMOKE, DUST, NOTE, HINT]

START = "server_args=ServerArgs(model_path='/m', tp_size=1)"
DEATH = "Subprocess scheduler_0 (pid=1) crashed with exit code -9. Triggering SIGQUIT for cleanup..."
LISTENS = "INFO:     Uvicorn running on http://127.0.0.1:30000 (Press CTRL+C to quit)"
STARTED = "INFO:     Started server process [5]"
READY = "The server is fired up and ready to roll!"


def test_cause_comes_first_whatever_the_order_of_the_log() -> None:
    text = write("dust settles", "radio plays", "smoke rises", "engine burns", "horn sounds")
    assert find(ALL, text) == ["root AAA001", "consequence CAS001", "context CTX001", "context CON001", "benign NOI001"]


def test_consequences_alone_are_incomplete() -> None:
    report = explain(ALL, write("smoke rises"))
    assert (report.verdict, report.root) == ("incomplete", None)
    assert report.missing


def test_noise_alone_is_no_cause() -> None:
    report = explain(ALL, write("dust settles"))
    assert (report.verdict, report.root) == ("incomplete", None)


def test_earliest_cause_wins_and_a_later_one_follows_from_it() -> None:
    assert find(ALL, write("engine stalls", "engine burns")) == ["root BBB001", "consequence AAA001"]
    assert find(ALL, write("engine burns", "engine stalls")) == ["root AAA001", "consequence BBB001"]


def test_later_cause_beside_one_that_is_not_sure_is_an_alternative() -> None:
    unsure = make_rule("AAA001", "engine burns", confidence="likely")
    assert find([unsure, STALLS], write("engine burns", "engine stalls")) == ["root AAA001", "alternative BBB001"]


def test_two_causes_of_one_record_are_alternatives() -> None:
    assert find(ALL, write("engine burns and engine stalls")) == ["root AAA001", "alternative BBB001"]


def test_rank_that_failed_first_wins_by_its_clock() -> None:
    text = "[2026-04-24 06:29:20 TP0] engine stalls\n[2026-04-24 06:29:10 TP1] engine burns\n"
    assert find(ALL, text)[0] == "root AAA001"


def test_innermost_exception_wins_over_its_wrapper() -> None:
    inner = make_rule("ZZZ001", "inner trouble", event="exception")
    outer = make_rule("AAA001", "outer trouble", event="exception")
    text = (
        'Traceback (most recent call last):\n  File "a.py", line 1, in f\nValueError: inner trouble\n\n'
        "The above exception was the direct cause of the following exception:\n\n"
        'Traceback (most recent call last):\n  File "b.py", line 1, in g\nRuntimeError: outer trouble\n'
    )
    assert find([outer, inner], text)[0] == "root ZZZ001"


def test_more_specific_rule_wins_on_the_same_line() -> None:
    general = make_rule("AAA001", "engine burns")
    special = make_rule("ZZZ001", "engine burns", "at noon")
    assert find([general, special], write("engine burns at noon")) == ["root ZZZ001", "alternative AAA001"]


def test_specificity_is_that_of_the_match_that_fired() -> None:
    """The first match of a rule says nothing about a hit of its second one."""
    two_ways = make_rule("ZZZ001", "wheel", "is", "lost")
    two_ways = two_ways._replace(matches=(*two_ways.matches, Match("line", ("engine burns",))))
    special = make_rule("BBB001", "engine burns", "at noon")
    assert find([special, two_ways], write("engine burns at noon")) == ["root BBB001", "alternative ZZZ001"]


def test_explained_rule_is_a_consequence_even_when_it_comes_first() -> None:
    cause = make_rule("ZZZ001", "tank is empty", explains=("AAA001",))
    assert find([BURNS, cause], write("engine burns", "tank is empty")) == ["root ZZZ001", "consequence AAA001"]


def test_rules_that_explain_each_other_leave_a_cause() -> None:
    one = make_rule("AAA001", "engine burns", explains=("BBB001",))
    other = make_rule("BBB001", "engine stalls", explains=("AAA001",))
    assert find([one, other], write("engine burns", "engine stalls"))[0] == "root AAA001"


def test_rule_that_explains_itself_stays_a_cause() -> None:
    assert find([make_rule("AAA001", "engine burns", explains=("AAA001",))], write("engine burns")) == ["root AAA001"]


def test_general_rule_yields_to_another_cause_in_the_same_record() -> None:
    general = make_rule("AAA001", "engine burns", "at noon", "today")._replace(general=True)
    text = write("engine burns at noon, today the engine stalls")
    assert find([general, make_rule("BBB001", "engine stalls")], text) == ["root BBB001"]


def test_general_rule_stays_beside_a_later_record() -> None:
    general = make_rule("AAA001", "engine burns")._replace(general=True)
    assert find([general, STALLS], write("engine burns", "engine stalls")) == ["root AAA001", "consequence BBB001"]


def test_two_general_rules_about_one_record_do_not_silence_each_other() -> None:
    one, other = BURNS._replace(general=True), STALLS._replace(general=True)
    assert find([one, other], write("engine burns and engine stalls")) == ["root AAA001", "alternative BBB001"]


def test_general_rule_about_the_line_that_the_cause_explains_is_not_repeated() -> None:
    cause = make_rule("ZZZ001", "engine burns at noon", explains=("AAA001",))
    assert find([BURNS, cause], write("engine burns at noon")) == ["root ZZZ001"]


def test_variant_changes_the_words_alone() -> None:
    rule = make_rule(
        "AAA001",
        "engine burns",
        title="plain",
        variants=(
            Variant("args.tp_size == 8", title="with eight", confidence="likely"),
            Variant("args.tp_size == 1", title="with one"),
        ),
    )
    for size, title, confidence in (
        (8, "with eight", "likely"),
        (1, "with one", "confirmed"),
        (2, "plain", "confirmed"),
    ):
        (item,) = explain([rule], write(START.replace("tp_size=1", f"tp_size={size}"), "engine burns")).diagnoses
        assert (item.title, item.confidence) == (title, confidence)


# ready, recovered, crashed


def test_failure_before_ready_was_recovered() -> None:
    report = explain(ALL, write("engine burns", READY))
    assert (report.verdict, [item.role for item in report.diagnoses]) == ("healthy", ["context"])


def test_failure_after_ready_is_a_cause() -> None:
    assert explain(ALL, write(READY, "engine burns")).verdict == "failure"


def test_failure_before_ready_that_crashed_in_between_is_a_cause() -> None:
    assert find(ALL, write("engine burns", DEATH, READY))[0] == "root AAA001"


def test_failure_before_ready_does_not_explain_a_crash_after_it() -> None:
    assert "context AAA001" in find(ALL, write("engine burns", READY, DEATH))


def test_ready_is_not_believed_when_the_port_belongs_to_another_server() -> None:
    """Its warm-up reaches the other server, so it prints that it is ready although it never listens."""
    taken = write("engine burns", STARTED, READY)
    assert explain(ALL, taken).verdict == "failure"
    assert explain(ALL, write("engine burns", STARTED, LISTENS, READY)).verdict == "healthy"


def test_server_without_http_lines_is_believed() -> None:
    assert explain(ALL, write(READY)).verdict == "healthy"


# episodes


def test_last_start_is_diagnosed() -> None:
    text = write(START, "engine burns", DEATH, START, "engine stalls")
    report = explain(ALL, text)
    assert report.root is not None
    assert report.root.rule == "BBB001"
    assert [item.rule for item in report.diagnoses if item.role == "context"] == ["AAA001"]


def test_restart_that_works_is_healthy_and_names_the_earlier_failure() -> None:
    report = explain(ALL, write(START, "engine burns", DEATH, START, READY))
    assert report.verdict == "healthy"
    assert [item.role for item in report.diagnoses] == ["context"]
    assert report.diagnoses[0].title.startswith("an earlier start in this log failed")


def test_restart_loop_is_one_cause() -> None:
    report = explain(ALL, write(*[START, "engine burns", DEATH] * 19))
    assert report.root is not None
    assert report.root.rule == "AAA001"


def test_restart_that_says_nothing_yet_leaves_the_earlier_cause() -> None:
    assert explain(ALL, write(START, "engine burns", DEATH, START)).root is not None


def test_two_dumps_without_an_end_between_are_one_start() -> None:
    """Ranks or nodes print their own dump."""
    assert find(ALL, write(START, "engine burns", START, "engine stalls"))[:2] == ["root AAA001", "consequence BBB001"]


BEGUN = "Init torch distributed begin."


@pytest.mark.parametrize(
    "second",
    [START.replace("tp_size=1", "port=30001"), START.replace("tp_size=1", "nnodes=2"), "TP1: x", "server_args=y"],
    ids=["another port", "another node", "no dump", "no fields"],
)
def test_what_follows_a_begun_start_and_is_no_start_over(second: str) -> None:
    text = write(START, BEGUN, "engine burns", second, "engine stalls")
    assert find(ALL, text)[:2] == ["root AAA001", "consequence BBB001"]


def test_same_server_that_begins_again_was_killed_without_a_word() -> None:
    text = write(START, BEGUN, "engine burns", START, "engine stalls")
    assert find(ALL, text) == ["root BBB001", "context AAA001"]


def test_facts_of_an_earlier_start_do_not_count() -> None:
    rule = make_rule("AAA001", "engine burns", when="args.tp_size == 2")
    assert find([rule], write(START.replace("tp_size=1", "tp_size=2"), DEATH, START, "engine burns")) == []
    assert find([rule], write(START, DEATH, START.replace("tp_size=1", "tp_size=2"), "engine burns")) == ["root AAA001"]


def test_stop_on_request_ends_a_start() -> None:
    text = write(START, READY, "SIGTERM received. signum=None", START, "engine burns")
    assert find(ALL, text)[0] == "root AAA001"


# what no rule knows


TRACE = '[2026-04-24 06:29:19 TP2] Scheduler hit an exception: Traceback (most recent call last):\n  File "/x/sglang/srt/a.py", line 7, in run\nValueError: nobody knows this\n'


def test_unknown_fatal_exception_is_named_with_its_place() -> None:
    report = explain(ALL, TRACE)
    assert report.root is not None
    assert (report.root.rule, report.root.confidence, report.root.ranks) == ("GEN001", "possible", ("TP2",))
    assert report.root.title == "ValueError: nobody knows this"
    assert "in run" in report.root.cause
    assert report.root.evidence[0].line == 3


def test_known_cause_leaves_no_unknown_one() -> None:
    assert "root GEN001" not in find([make_rule("AAA001", "nobody knows", event="exception")], TRACE)


@pytest.mark.parametrize("kind", ["EOFError", "KeyboardInterrupt", "SystemExit", "BrokenPipeError"])
def test_exception_that_only_passes_something_on_is_no_cause(kind: str) -> None:
    assert explain(ALL, TRACE.replace("ValueError", kind)).root is None


def test_noise_that_holds_a_traceback_is_no_cause() -> None:
    noise = make_rule("NOI001", "Ignore import error", role="benign")
    text = TRACE.replace("Scheduler hit an exception:", "Ignore import error when loading x:")
    assert find([noise], text) == ["benign NOI001"]


def test_exception_of_a_request_on_a_server_that_is_up_is_no_cause() -> None:
    text = write(READY) + TRACE.replace("Scheduler hit an exception:", "Exception in ASGI application:")
    assert explain(ALL, text).verdict == "healthy"


def test_traceback_that_is_cut_is_incomplete() -> None:
    report = explain(ALL, TRACE.partition("ValueError")[0])
    assert (report.verdict, report.root) == ("incomplete", None)
    assert "ends before the exception itself" in report.missing[0]

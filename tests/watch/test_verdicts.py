"""Readiness, restarts and findings: what follows from what was seen."""

import os

import pytest

from doctor.diagnosis.explain import Question
from doctor.watch.findings import FINDINGS, join, list_facts
from doctor.watch.forecast import Forecast
from doctor.watch.launch import find_address, read_launch
from doctor.watch.live import Live
from doctor.watch.memory_fixes import suggest_fixes
from doctor.watch.model import Answer, Death, Fault, Run, Settings
from doctor.watch.policy import Ending, Past, decide
from doctor.watch.prober import Target, check_readiness, fetch, judge_answer

# -- readiness
HERE = find_address({"port": 9}, {})
TEXT = b'{"text": "%s", "meta_info": {"completion_tokens": 20, "finish_reason": {"type": "stop"}}}'


def replies(**by_path):
    return lambda *given: by_path.get(given[2].strip("/"), Answer(given[2], 404, 0.1, 0.0))


def ok(body):
    return Answer("", 200, 0.1, 0.0, body)


def test_readiness_passes_with_a_sane_completion():
    found = check_readiness(
        Target(HERE, (), "m"),
        replies(model_info=ok(b'{"model_path": "m"}'), generate=ok(TEXT % b"Paris, a city on the Seine.")),
    )
    assert (found.state, found.warning) == ("passed", "")


def test_readiness_fails_for_another_model():
    found = check_readiness(Target(HERE, (), "m"), replies(model_info=ok(b'{"model_path": "other"}')))
    assert (found.state, found.kind) == ("failed", "foreign-server")


def test_readiness_knows_the_old_endpoint():
    found = check_readiness(Target(HERE, (), "m"), replies(get_model_info=ok(b'{"model_path": "other"}')))
    assert found.kind == "foreign-server"


def test_readiness_asks_nothing_of_an_embedding_model():
    found = check_readiness(Target(HERE, (), ""), replies(model_info=ok(b'{"is_generation": false}')))
    assert found.state == "passed"


def test_readiness_passes_unasked_with_an_unknown_key():
    found = check_readiness(Target(HERE, (), ""), replies(generate=Answer("", 401, 0.1, 0.0)))
    assert (found.state, found.kind) == ("passed", "unasked")


def test_readiness_fails_without_a_completion():
    found = check_readiness(Target(HERE, (), ""), replies(generate=Answer("", 500, 2.0, 0.0)))
    assert (found.state, found.kind) == ("failed", "no-completion")


def test_readiness_fails_when_the_port_is_somebody_elses():
    import socket

    with socket.create_server(("127.0.0.1", 0)) as other:
        address = find_address({"port": other.getsockname()[1]}, {})
        assert (
            check_readiness(Target(address, (os.getpid(),), ""), replies(generate=ok(TEXT % b"Paris."))).state
            == "passed"
        )
        found = check_readiness(Target(address, (1,), ""), replies())
    assert found.kind == "foreign-server"


def test_loop_in_a_completion_is_named():
    assert "degenerate" in judge_answer(
        (TEXT % (b" the the" * 60)).replace(b": 20", b": 120").replace(b"stop", b"length")
    )


@pytest.mark.parametrize("body", [b"", b"\xff\xfe", b"{", b"[]", b"null", b'{"text": 5}'])
def test_completion_that_cannot_be_read_is_said(body):
    assert isinstance(judge_answer(body), str)


def test_fetch_of_a_closed_port_gives_a_reason():
    found = fetch(find_address({"port": 1}, {}), "GET", "/health", 1.0)
    assert (found.status, bool(found.reason)) == (0, True)


# -- policy
def ending(recoverable="maybe", ready=True, mendable=False):
    return Ending("X001 x", recoverable, mendable, ready)


def test_policy_pauses_grow_and_end():
    past, pauses = [], []
    for number in range(4):
        decision = decide(ending(), past, mended=False, settings=Settings(), now=number * 10.0)
        pauses.append((decision.action, decision.pause))
        past.append(Past(number * 10.0, "X001 x"))
    assert pauses == [("restart", 5.0), ("restart", 10.0), ("restart", 20.0), ("give-up", 0.0)]


def test_policy_forgets_after_an_hour():
    past = [Past(0.0, "X001 x")] * 5
    assert decide(ending(), past, mended=False, settings=Settings(), now=4000.0).action == "restart"


def test_policy_counts_each_cause_by_itself():
    past = [Past(0.0, "Y001 y")] * 5
    assert decide(ending(), past, mended=False, settings=Settings(), now=10.0).action == "restart"


def test_policy_never_repeats_what_cannot_recover():
    assert decide(ending("never"), [], mended=False, settings=Settings(), now=0.0).action == "give-up"


def test_policy_tries_an_unknown_start_once():
    unknown = ending("unknown", ready=False)
    assert decide(unknown, [], mended=False, settings=Settings(), now=0.0).action == "restart"
    assert decide(unknown, [Past(0.0, "X001 x")], mended=False, settings=Settings(), now=1.0).action == "give-up"


def test_policy_mends_even_what_cannot_recover():
    settings = Settings(restart="never", apply_safe=True)
    assert decide(ending("never", mendable=True), [], mended=False, settings=settings, now=0.0).action == "mend"
    assert decide(ending("never", mendable=True), [], mended=True, settings=settings, now=0.0).action == "give-up"


def test_policy_mends_only_when_asked():
    assert decide(ending("never", mendable=True), [], mended=False, settings=Settings(), now=0.0).action == "give-up"


# -- findings
def diagnose_text(text, run):
    live = Live([].append)
    live.offer(text)
    assert live.settle(30)
    report = live.diagnose(Question("sglang serve --model-path m", list_facts(run, 0, asked=False)))
    live.close()
    return join(report, run)


STALL = Run(1, 0.0, fault=Fault("stalled", "requests wait and no batch was run for 25 s", 5.0))
OOM = b'[2026-04-24 06:29:19 TP0] Scheduler hit an exception: Traceback (most recent call last):\n  File "x.py", line 1, in f\ntorch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 79.11 GiB of which 1.00 GiB is free.\n'


def test_finding_is_the_cause_when_the_log_has_none():
    report = diagnose_text(b"[2026-04-24 06:29:19] The server is fired up and ready to roll!\n", STALL)
    assert (report.verdict, report.root.rule) == ("failure", "WATCH007")


def test_finding_yields_to_a_cause_in_the_log():
    report = diagnose_text(OOM, STALL)
    assert report.root.rule.startswith("MEM") or "memory" in report.root.name
    assert report.diagnoses[-1].rule == "WATCH007"


def test_finding_that_explains_all_comes_first():
    report = diagnose_text(OOM, Run(1, 0.0, fault=Fault("host-memory", "host memory runs out", 5.0)))
    assert report.root.rule == "WATCH009"
    assert report.diagnoses[1].role == "alternative"


def test_every_finding_has_its_own_code():
    assert len({finding.rule for finding in FINDINGS.values()}) == len(FINDINGS)


def test_facts_name_the_first_death_only_when_it_came_before_the_main_process():
    death = Death(7, "sglang::scheduler", -9, 5.0)
    assert list_facts(Run(1, 0.0, deaths=(death,), exited=6.0), 0, asked=False)["watch.signal"] == 9
    assert "watch.first_death" not in list_facts(Run(1, 0.0, deaths=(death,), exited=4.0), 0, asked=False)


def test_facts_of_a_cgroup_kill_speak_as_the_kernel():
    facts = list_facts(Run(1, 0.0, pid=3), 1, asked=False)
    assert (facts["kernel.oom_pid"], facts["kernel.oom_constraint"]) == (3, "CONSTRAINT_MEMCG")


def test_memory_fix_lowers_the_offload_to_what_fits():
    launch = read_launch(["sglang", "serve", "--model-path", "m", "--cpu-offload-gb", "60", "--tp", "2"])
    (fix,) = suggest_fixes(launch, 71 << 30, None, "0.5.23")
    assert fix.command.endswith("--cpu-offload-gb 26 --tp 2")


def test_memory_fix_offloads_fewer_layers():
    launch = read_launch(
        ["sglang", "serve", "--model-path", "m", "--offload-group-size", "8", "--offload-num-in-group", "4"]
    )
    (fix,) = suggest_fixes(launch, 0, Forecast(1, 24, 24, 18, 13), "0.5.23")
    assert fix.command.endswith("--offload-num-in-group 2")


@pytest.mark.parametrize(("group", "stops_at", "larger"), [(1, 4, 3), (1, 5, 3), (1, 11, 2), (4, 2, 24), (1, 1, 12)])
def test_memory_fix_enlarges_groups_of_one_moved_layer(group, stops_at, larger):
    launch = read_launch(["sglang", "serve", "--model-path", "m", "--offload-group-size", str(group)])
    (fix,) = suggest_fixes(launch, 0, Forecast(1, 12, 12, 4, stops_at), "0.5.23")
    assert fix.command.endswith(f"--offload-group-size {larger}")


def test_memory_fix_is_silent_where_no_layer_fits():
    launch = read_launch(["sglang", "serve", "--model-path", "m", "--offload-group-size", "1"])
    assert suggest_fixes(launch, 0, Forecast(1, 12, 12, 0, 0), "0.5.23") == ()


def test_memory_fix_is_silent_without_offload():
    assert suggest_fixes(read_launch(["sglang", "serve", "--model-path", "m"]), 1 << 30, None, None) == ()

"""The small parts: reading of launches, probes, evidence, files, screen, policy."""

import json
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from doctor.diagnosis.explain import Question
from doctor.errors import DoctorError
from doctor.launch.edits import Edit
from doctor.watch.evidence import KEPT_FOLDERS, Scene, collect, find_base, find_py_spy, group_by_rank, prune
from doctor.watch.findings import FINDINGS, join, list_facts
from doctor.watch.forecast import Forecast
from doctor.watch.journal import Journal
from doctor.watch.kernel import format_record
from doctor.watch.launch import check_executable, find_address, find_proxy, mend, read_launch
from doctor.watch.leftovers import Leftovers, list_shared, make_environment
from doctor.watch.listen import answer, parse_address
from doctor.watch.live import MOST_BYTES, Live
from doctor.watch.liveness import PATIENCE
from doctor.watch.logfile import RotatedLog
from doctor.watch.memory_fixes import suggest_fixes
from doctor.watch.model import Answer, Death, Fault, Run, Settings, Stop
from doctor.watch.notify import find_period
from doctor.watch.policy import Ending, Past, decide
from doctor.watch.prober import Target, check_readiness, fetch, judge_answer
from doctor.watch.process import is_compiler
from doctor.watch.screen import Screen
from doctor.watch.states import PHASES, READY, STALLED, STARTING
from doctor.watch.status import Status, describe, render_metrics
from doctor.watch.tree import Tree, choose_ranks, decode_status, read_stat
from doctor.watch.watch import find_exit_code
from tests.watch.world import make_member

# -- launches


def test_launch_keeps_variables_and_words():
    launch = read_launch(["A=1", "sglang", "serve", "--model-path", "m", "--port", "31000"])
    assert (launch.argv[0], launch.variables, launch.arguments["port"]) == ("sglang", {"A": "1"}, 31000)


def test_launch_of_bare_arguments_gets_a_program():
    assert read_launch(["--model-path", "m"]).argv[-2:] == ("--model-path", "m")


def test_launch_of_a_wrapper_keeps_its_separator():
    launch = read_launch(["/x/wrapper", "serve", "m", "--", "--model-path", "m", "--tp", "2"])
    assert launch.argv[:4] == ("/x/wrapper", "serve", "m", "--")
    assert launch.arguments["tp_size"] == 2


@pytest.mark.parametrize("words", [["echo", "hi"], ["sleep", "5"], ["python", "x.py", "--port", "3"]])
def test_launch_that_is_not_sglang_has_no_command(words):
    assert read_launch(words).command is None


@pytest.mark.parametrize("words", [[], ["A=1"]])
def test_launch_of_nothing_is_refused(words):
    with pytest.raises(DoctorError):
        read_launch(words)


def test_executable_is_looked_for_on_the_path_of_the_launch(tmp_path):
    program = tmp_path / "program"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    check_executable(read_launch([f"PATH={tmp_path}", "program"]), {"PATH": "/nowhere"})
    with pytest.raises(DoctorError):
        check_executable(read_launch(["program"]), {"PATH": "/nowhere"})


def test_mend_edits_the_words():
    launch = read_launch(["sglang", "serve", "--model-path", "m", "--mem-fracton-static", "0.7"])
    edits = [Edit("flag", "--mem-fracton-static", "0.7", None), Edit("flag", "--mem-fraction-static", None, "0.7")]
    assert mend(launch, edits, "0.5.23").argv[-2:] == ("--mem-fraction-static", "0.7")


def test_mend_keeps_a_secret_that_reports_hide():
    launch = read_launch(["sglang", "serve", "--model-path", "m", "--api-key", "secretsecret", "--tp", "2"])
    assert "secretsecret" in mend(launch, [Edit("flag", "--tp-size", "2", "1")], None).argv


def test_mend_of_nothing_is_none():
    launch = read_launch(["sglang", "serve", "--model-path", "m", "--tp", "2"])
    assert mend(launch, [Edit("flag", "--tp-size", "2", "2")], None) is None
    assert mend(read_launch(["echo"]), [], None) is None


@pytest.mark.parametrize(
    ("environment", "name"),
    [
        ({}, ""),
        ({"HTTP_PROXY": "http://proxy:3128"}, "HTTP_PROXY"),
        ({"all_proxy": "socks5://proxy:1080"}, "all_proxy"),
        ({"https_proxy": "http://proxy:3128"}, ""),
        ({"HTTP_PROXY": "http://proxy:3128", "NO_PROXY": "localhost,127.0.0.1"}, ""),
        ({"http_proxy": "http://proxy:3128", "no_proxy": "example.com"}, "http_proxy"),
    ],
)
def test_proxy_of_requests_to_itself(environment, name):
    assert find_proxy(environment, "127.0.0.1") == name


def test_address_of_the_dump_wins():
    assert find_address({"port": 1, "api_key": "k"}, {"port": 2, "host": "0.0.0.0"})[:2] == ("127.0.0.1", 2)  # noqa: S104 - what servers print
    assert find_address({}, {}).port == 30000
    assert find_address({"port": 70000}, {}).port == 30000


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


# -- reading live


def test_live_tells_an_event_after_silence():
    seen = threading.Event()
    live = Live(lambda _: seen.set())
    live.offer(b"[2026-04-24 06:29:19] The server is fired up and ready to roll!\n")
    assert seen.wait(30)
    live.close()


def test_live_counts_batch_lines():
    live = Live([].append)
    line = b"[2026-04-24 06:29:19 TP0] Decode batch, #running-req: 3, #token: 9, token usage: 0.03, cuda graph: True, gen throughput (token/s): 12.5, #queue-req: 2\n"
    live.offer(line * 5)
    live.settle(30)
    assert (live.batch.running, live.batch.queued, live.batch.throughput, live.batch.lines) == (3, 2, 12.5, 1)
    live.close()


def test_live_skips_what_it_cannot_take():
    live = Live([].append)
    for _ in range(3):
        live.offer(b"x" * (MOST_BYTES // 2 + 1))
    assert live.skipped > 0
    live.close()


def test_live_forgets_the_last_server():
    live = Live([].append)
    live.offer(OOM)
    live.settle(30)
    live.restart()
    assert live.diagnose(Question()).root is None
    live.close()


# -- files


def test_journal_redacts_and_keeps_to_a_line(tmp_path):
    journal = Journal(str(tmp_path / "events"))
    journal.write("note", text="--api-key s3cret9value\x1b[31m\nnext", pids=[1, 2])
    journal.close()
    row = json.loads((tmp_path / "events").read_text())
    assert "s3cret9value" not in row["text"]
    assert "\x1b" not in row["text"]
    assert row["pids"] == [1, 2]


def test_journal_refuses_a_folder(tmp_path):
    with pytest.raises(DoctorError):
        Journal(str(tmp_path))


def test_journal_goes_on_when_the_disk_is_full():
    journal = Journal("/dev/full")
    journal.write("note")
    journal.close()


@given(st.lists(st.binary(max_size=200_000), max_size=8))
def test_log_files_hold_every_byte(tmp_path_factory, chunks):
    folder = tmp_path_factory.mktemp("log")
    log = RotatedLog(str(folder), 1 << 18, pytest.fail)
    for chunk in chunks:
        log.write(chunk)
    log.close()
    files = sorted(folder.glob("server.log*"), reverse=True)
    assert b"".join(path.read_bytes() for path in files) == b"".join(chunks)
    assert all(path.stat().st_size <= 1 << 18 for path in files)


def test_log_file_too_small_is_refused(tmp_path):
    with pytest.raises(DoctorError):
        RotatedLog(str(tmp_path), 100, pytest.fail)


def make_scene(members=(), output=b""):
    fault = Fault("stalled", "words", 0.0, (5,))
    return Scene(fault, tuple(members), output, "memory", "", b"", dict(os.environ), sys.executable, lambda: None)


def test_evidence_goes_beside_the_log():
    assert find_base("x", "log", {}) == "x"
    assert find_base(None, "log", {}) == "log/evidence"
    assert find_base(None, None, {"XDG_STATE_HOME": "/s"}) == "/s/sglang-doctor/evidence"


def test_evidence_is_written_and_redacted(tmp_path):
    folder = collect(
        str(tmp_path), make_scene(output=b"\n[2026-04-24 06:29:19 TP1] HF_TOKEN=hf_abcdefghijklmnopqrstuvwxyz\n")
    )
    text = Path(folder, "output.txt").read_text("utf-8")
    assert "== TP1" in text
    assert "abcdefghij" not in text


def test_evidence_of_a_full_disk_is_none(tmp_path):
    (tmp_path / "file").write_text("")
    assert collect(str(tmp_path / "file"), make_scene()) == ""


def test_evidence_of_a_process_that_is_no_python_says_so(tmp_path):
    child = subprocess.Popen(["sleep", "60"])
    scene = make_scene([make_member(child.pid, "sglang::scheduler")])
    folder = collect(str(tmp_path), scene)
    child.kill()
    child.wait()
    assert os.path.exists(os.path.join(folder, f"stack-{child.pid}.txt"))


def test_evidence_folders_are_few(tmp_path):
    for number in range(KEPT_FOLDERS + 5):
        (tmp_path / f"20260424-0629{number:02}-stalled").mkdir()
    (tmp_path / "mine").mkdir()
    prune(str(tmp_path))
    assert len(list(tmp_path.glob("2026*"))) == KEPT_FOLDERS
    assert (tmp_path / "mine").exists()


def test_output_is_grouped_by_rank():
    text = group_by_rank(b"cut\n[2026-04-24 06:29:19 TP0] a\n[2026-04-24 06:29:19 TP1] b\nc\n")
    assert text.index("== TP0") < text.index("== TP1") < text.index("== no rank")
    assert "cut" not in text


def test_py_spy_is_found_beside_the_program(tmp_path):
    for name in ("python", "py-spy"):
        (tmp_path / name).write_text("#!/bin/sh\n")
        (tmp_path / name).chmod(0o755)
    assert find_py_spy({"PATH": str(tmp_path)}, "python") == str(tmp_path / "py-spy")


def test_leftovers_remove_what_was_mapped_and_nothing_else(tmp_path):
    before = list_shared()
    ours, theirs = f"/dev/shm/doctor-test-{os.getpid()}", f"/dev/shm/doctor-test-other-{os.getpid()}"  # noqa: S108
    program = f"import mmap, time; f = open({ours!r}, 'w+b'); f.write(b'x' * 4096); f.flush(); m = mmap.mmap(f.fileno(), 4096); print('up', flush=True); time.sleep(60)"
    open(theirs, "w").close()
    folder = tmp_path / "own"
    folder.mkdir()
    child = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE)
    child.stdout.readline()
    left = Leftovers(str(folder), before)
    left.note([child.pid])
    assert left.remove() == ()  # still mapped
    folder.mkdir()
    child.kill()
    child.communicate()
    assert left.remove() == (ours,)
    assert (os.path.exists(ours), os.path.exists(theirs), folder.exists()) == (False, True, False)
    os.unlink(theirs)


def test_environment_keeps_its_first_variable_first():
    made = make_environment("/tmp/x", {"FIRST": "1", "TMPDIR": "/old"})  # noqa: S108
    assert next(iter(made)) == "FIRST"
    assert made["TORCHINDUCTOR_CACHE_DIR"].startswith("/old/torchinductor_")
    assert made["TMPDIR"] == "/tmp/x"  # noqa: S108


def test_guardian_ends_only_whom_it_was_told_of(tmp_path):
    child = subprocess.Popen(["sleep", "60"], start_new_session=True)
    other = subprocess.Popen(["sleep", "60"], start_new_session=True)
    known = {"pids": [[child.pid, read_stat(child.pid).start], [other.pid, 1]], "folder": str(tmp_path / "none")}
    threading.Thread(target=child.wait, daemon=True).start()
    program = f"from doctor.watch.guardian import end_server; end_server({known!r})"
    subprocess.run([sys.executable, "-c", program], check=True)
    assert other.poll() is None
    other.kill()
    other.wait()
    assert child.wait(10) != 0


# -- processes


def test_tree_finds_children_and_orphans_of_its_session():
    child = subprocess.Popen(["sh", "-c", "(sleep 60 &) ; sleep 60"], start_new_session=True)
    tree = Tree(child.pid)
    end = time.monotonic() + 10
    titles = []
    while titles != ["sleep 60", "sleep 60"] and time.monotonic() < end:  # a child is first a copy of the shell
        titles = sorted(member.title for member in tree.scan())[1:]
        time.sleep(0.05)
    assert titles == ["sleep 60", "sleep 60"]
    os.killpg(child.pid, 9)
    child.wait()


def test_tree_does_not_take_a_later_process_for_an_earlier_one(tmp_path):
    proc = tmp_path / "proc"
    (proc / "50").mkdir(parents=True)
    fields = ["S", "1", "50", "50"] + ["0"] * 15 + ["100"] + ["0"] * 30
    (proc / "50" / "stat").write_text(f"50 (a) b) {' '.join(fields)}\n")
    (proc / "50" / "cmdline").write_bytes(b"sglang::scheduler")
    tree = Tree(50, proc=str(proc))
    assert tree.scan()[0].is_rank
    fields[19] = "999"
    (proc / "50" / "stat").write_text(f"50 (x) {' '.join(fields)}\n")
    (proc / "50" / "cmdline").write_bytes(b"other")
    assert not any(member.is_rank for member in tree.scan())


@pytest.mark.parametrize("text", ["", "5", "5 (x", "5 (x) S a b", "\0"])
def test_stat_that_cannot_be_read_is_none(tmp_path, text):
    (tmp_path / "5").mkdir()
    (tmp_path / "5" / "stat").write_text(text)
    assert read_stat(5, str(tmp_path)) is None


def test_workers_are_ranks_only_where_nobody_has_a_title():
    titled, worker = (
        make_member(1, "sglang::scheduler"),
        make_member(2, "python -c from multiprocessing.spawn import x"),
    )
    assert choose_ranks([titled, worker]) == [titled]
    assert choose_ranks([worker, make_member(3, "python -c from multiprocessing.resource_tracker")]) == [worker]


def test_status_is_decoded():
    assert (decode_status(9), decode_status(256), decode_status(139)) == (-9, 1, -11)


def test_compilers_are_known_by_program():
    assert is_compiler("/usr/local/cuda/bin/nvcc -O3 x.cu")
    assert not is_compiler("python nvcc.py")


@pytest.mark.parametrize(
    ("state", "code", "expected"),
    [
        ("stopped", 0, 0),
        ("stopped", -15, 143),
        ("failed", 0, 1),
        ("failed", -9, 137),
        ("failed", 3, 3),
        ("failed", None, 137),
    ],
)
def test_exit_code(state, code, expected):
    run = Run(1, 0.0, code=code, stop=Stop("user", 15, 0.0, 0.0))
    assert find_exit_code(state, run) == expected


# -- what is shown


def test_status_line_names_phase_ranks_and_memory():
    text = describe(Status(STARTING, "load", 75.0, 2, 5, 3 << 30, 40 << 30, 1 << 30, 10 << 30, 80 << 30))
    assert text == "starting (load) | 1:15 | 2 ranks | GPU 10.0/80 GiB | host 3.0 GiB, 40.0 left"


def test_status_line_of_a_ready_server_has_tokens():
    assert "12 tok/s, 3 running, 1 queued" in describe(Status(READY, throughput=12.0, running=3, queued=1))


def test_metrics_escape_labels():
    assert 'cause="a\\"b"' in render_metrics(Status(restarts={'a"b': 2}))


def test_endpoints_follow_the_state():
    assert answer("/readyz", Status(STARTING), 0.0)[0] == 503
    assert answer("/readyz", Status(READY), 0.0)[0] == 200
    assert answer("/readyz", Status(STALLED), 0.0)[0] == 503
    assert answer("/livez", Status(STARTING), 10.0)[0] == 200
    assert answer("/livez", Status(READY, ticked=0.0), 100.0)[0] == 503
    assert answer("/livez", Status("failed"), 0.0)[0] == 503


@pytest.mark.parametrize("text", ["", "x", "host:", "1:99999", "host:-1"])
def test_listen_address_is_checked(text):
    with pytest.raises(DoctorError):
        parse_address(text)


def test_listen_address_forms():
    assert parse_address("9100") == ("127.0.0.1", 9100)
    assert parse_address("[::1]:9100") == ("::1", 9100)


def test_watchdog_period_is_half_and_only_ours():
    assert find_period({"WATCHDOG_USEC": "10000000"}) == 5.0
    assert find_period({"WATCHDOG_USEC": "10000000", "WATCHDOG_PID": "1"}) is None
    assert find_period({"WATCHDOG_USEC": "x"}) is None


def test_screen_takes_the_status_line_away_before_output():
    reader, writer = os.pipe()
    screen = Screen(writer, live=True)
    write = screen.wrap(lambda data: os.write(writer, data))
    screen.draw("status")
    write(b"line\n")
    screen.draw("status")
    write(b"half")
    screen.draw("status")
    screen.say("hello \x1b[31m")
    os.close(writer)
    erase = b"\r\x1b[K"
    with os.fdopen(reader, "rb") as stream:
        written = stream.read()
    assert written.startswith(erase + b"status" + erase + b"line\n" + erase + b"status" + erase + b"half\n")
    assert written.count(b"status") == 2
    assert b"\x1b[31m" not in written


def test_screen_writes_plain_lines_without_a_terminal():
    reader, writer = os.pipe()
    screen = Screen(writer, live=False)
    screen.draw("status")
    screen.say("hello")
    os.close(writer)
    with os.fdopen(reader, "rb") as stream:
        assert stream.read() == b"doctor: hello\n"


def test_kernel_record_looks_like_dmesg():
    line = format_record(b"3,900,12345678,-;Out of memory: Killed process 5 (x)\n SUBSYSTEM=a\n", 10.0)
    assert line == b"[   12.345678] Out of memory: Killed process 5 (x)\n"
    assert format_record(b"3,900,12345678,-;x\n", 13.0) == b""
    assert format_record(b"broken", 0.0) == b""


def test_every_phase_has_its_patience():
    assert set(PATIENCE) == set(PHASES)

"""One test per arrow of the state machine, each a scripted history with an injected clock, process and probes."""

import signal

import pytest

from doctor.watch import states
from doctor.watch.machine import ForbiddenChangeError, Machine
from doctor.watch.model import Readiness
from tests.watch import test_endings
from tests.watch.world import SCHEDULER, History, make_member


def test_table_names_every_state():
    assert set(states.ALLOWED) == set(states.STATES)
    assert {after for targets in states.ALLOWED.values() for after in targets} <= set(states.STATES)


def test_final_states_have_no_arrow():
    assert all(not states.ALLOWED[state] for state in states.FINAL)


def test_machine_refuses_an_arrow_that_the_table_lacks():
    machine = Machine(lambda: 0.0, [].append)
    with pytest.raises(ForbiddenChangeError):
        machine.move(states.SERVING, "no")
    assert machine.state == states.STARTING


def test_every_arrow_of_the_table_has_a_test_of_its_name():
    arrows = {
        f"test_{before}_to_{after}_".replace("-", "_")
        for before, targets in states.ALLOWED.items()
        for after in targets
    }
    names = [*globals(), *vars(test_endings)]
    missing = {arrow for arrow in arrows if not any(name.startswith(arrow) for name in names)}
    assert not missing


# -- starting


def test_starting_to_ready_after_a_completion():
    history = History()
    history.fire_up()
    assert history.world.asked == ["ready"]
    assert history.state == states.STARTING
    history.supervisor.on_readiness(Readiness("passed", 0.0, "", "fired up"))
    assert history.tick().state == states.READY


def test_starting_stays_when_fired_up_was_printed_for_another_server():
    assert History().mark("warmup begin", "serving begin").wait(5).world.asked == []


def test_starting_asks_when_the_http_log_is_hidden():
    assert History().mark("serving begin").world.asked == ["ready"]


def test_starting_follows_the_phases_and_never_goes_back():
    history = History().mark("args end")
    assert history.run.phase == states.IMPORT
    history.mark("dist-init begin", "load begin", "capture begin", "load begin")
    assert history.run.phase == states.CAPTURE


def test_starting_to_stalled_when_the_check_fails():
    history = History().fire_up()
    history.supervisor.on_readiness(Readiness("failed", 0.0, "foreign-server", "another one"))
    assert history.tick().state == states.STALLED
    assert history.world.collected == ["foreign-server"]


def test_starting_to_stalled_when_the_port_is_taken():
    history = History().mark("warmup begin", "warmup failed")
    assert (history.state, history.world.collected) == (states.STALLED, ["port-taken"])


def test_starting_to_stalled_after_silence():
    history = History().mark("load begin").wait(590)
    assert history.state == states.STARTING
    assert history.wait(20).state == states.STALLED
    assert history.world.collected == ["silent-start"]


def test_starting_stays_while_bytes_move():
    history = History().mark("load begin")
    for _ in range(10):
        history.world.moved = history.clock.now
        history.wait(300, 10.0)
    assert history.state == states.STARTING


def test_starting_stays_while_a_compiler_runs():
    history = History().mark("capture begin")
    history.world.compiling = True
    assert history.wait(5000, 10.0).state == states.STARTING


def test_starting_waits_longer_with_patience():
    assert History(patience=3.0).mark("load begin").wait(1500, 10.0).state == states.STARTING


def test_starting_to_stalled_when_a_proxy_takes_the_warm_up():
    history = History()
    history.world.detour = "HTTP_PROXY"
    history.mark("warmup begin", "warmup http").wait(30)
    assert (history.state, history.world.asked) == (states.STARTING, [])
    assert history.wait(2).world.asked == ["health"]
    history.answer(503)
    assert history.wait(2).state == states.STALLED
    assert "HTTP_PROXY" in history.arrows[-1].reason
    assert history.world.asked == ["health"]


def test_starting_stays_when_a_proxy_lets_the_warm_up_through():
    history = History()
    history.world.detour = "HTTP_PROXY"
    history.mark("warmup begin", "warmup http").wait(3)
    history.world.connections = 1
    history.wait(1)
    history.world.connections = 0
    assert history.wait(120).state == states.STARTING
    assert history.world.asked == []


def test_starting_stays_when_lines_follow_the_warm_up():
    history = History()
    history.world.detour = "HTTP_PROXY"
    history.mark("warmup begin", "warmup http").wait(3)
    history.world.bytes += 10
    assert history.wait(120).state == states.STARTING


def test_starting_stays_in_silence_without_a_proxy():
    assert History().mark("warmup begin", "warmup http").wait(140).state == states.STARTING


def test_starting_to_draining_on_a_signal():
    history = History()
    history.supervisor.on_signal(signal.SIGTERM)
    assert history.state == states.DRAINING
    assert history.world.signals == [("main", signal.SIGTERM)]


def test_starting_to_dead_within_50_ms():
    history = History().end(2)
    assert [change.after for change in history.arrows] == [states.DEAD, states.BACKING_OFF]
    assert history.world.explained == 1


# -- ready and serving


def test_ready_to_serving_with_requests():
    assert History().serve().state == states.SERVING


def test_ready_stays_when_only_the_doctor_asks():
    history = History().become_ready()
    history.batch()
    assert history.state == states.READY


def test_ready_stays_on_the_batch_of_a_probe():
    history = History().become_ready()
    history.world.connections = 1  # SGLang keeps its own warm-up connection
    history.batch()
    assert history.state == states.READY


def test_ready_to_stalled_when_a_process_is_stopped():
    history = History().become_ready().stop_process(SCHEDULER).wait(3)
    assert history.state == states.READY
    assert history.wait(2).state == states.STALLED
    assert history.world.collected == ["stopped"]


def test_ready_to_draining_on_a_signal():
    history = History().become_ready()
    history.supervisor.on_signal(signal.SIGINT)
    assert (history.state, history.world.signals) == (states.DRAINING, [("main", signal.SIGINT)])


def test_ready_to_draining_on_hang_up_as_sigterm():
    history = History().become_ready()
    history.supervisor.on_signal(signal.SIGHUP)
    assert history.world.signals == [("main", signal.SIGTERM)]


def test_ready_to_dead_when_it_ends():
    assert History().become_ready().end(0).state == states.STOPPED


def test_serving_to_ready_when_idle():
    history = History().serve()
    history.world.connections = 0
    assert history.wait(60).state == states.READY


def test_serving_to_stalled_when_the_scheduler_dies():
    history = History().serve().lose(SCHEDULER, -9).wait(2)
    assert (history.state, history.world.collected) == (states.STALLED, ["rank-dead"])
    assert history.run.deaths[0].code == -9


def test_serving_to_stalled_when_the_scheduler_is_a_zombie():
    history = History().serve()
    history.world.people[SCHEDULER] = make_member(SCHEDULER, "sglang::scheduler", "Z", 11)
    assert history.wait(2).state == states.STALLED
    assert history.run.deaths[0].code == -11


def test_serving_to_stalled_when_requests_do_not_move():
    history = History().serve().wait(24)
    assert history.state == states.SERVING
    assert "health" in history.world.asked
    assert history.wait(4).state == states.STALLED
    assert history.world.collected == ["stalled"]


def test_serving_stays_when_health_answers():
    history = History().serve()
    for _ in range(12):
        history.wait(11)
        history.answer(200)
    assert history.state == states.SERVING


def test_serving_stays_with_batch_lines():
    history = History().serve()
    for _ in range(100):
        history.wait(5)
        history.batch()
    assert history.state == states.SERVING


def test_serving_stays_when_idle_connections_are_open_and_health_answers():
    history = History().serve()
    for _ in range(30):
        history.wait(10.5)
        if history.run.health_asked:
            history.answer(200)
    assert history.state in states.UP


def test_serving_to_stalled_when_health_fails():
    history = History().serve()
    history.world.connections = 0
    history.wait(95)
    assert "health" in history.world.asked
    history.answer(503, 20.0)
    assert history.wait(1).world.collected == ["unhealthy"]


def test_serving_to_draining_on_a_signal():
    history = History().serve()
    history.supervisor.on_signal(signal.SIGTERM)
    assert history.state == states.DRAINING


def test_serving_to_dead_when_the_tree_kills_itself():
    history = History().serve().end(-9)
    assert history.arrows[-2].after == states.DEAD
    assert history.world.explained == 1


def test_serving_keeps_a_server_that_shuts_down_by_itself():
    history = History().serve().mark("shutdown begin").lose(SCHEDULER, -15).wait(5)
    assert history.state == states.SERVING

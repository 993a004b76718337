"""The later arrows of the state machine: stalled, draining, dead, backing off; see test_supervisor.py."""

import signal

from doctor.watch import states
from doctor.watch.policy import Ending
from tests.watch.world import DETOKENIZER, MAIN, SCHEDULER, History

# -- stalled


def test_stalled_to_starting_when_output_comes_again():
    history = History().mark("load begin").wait(610)
    assert history.state == states.STALLED
    history.world.bytes += 10
    history.supervisor.on_evidence("folder")
    assert history.wait(1).state == states.STARTING


def test_stalled_stays_when_the_output_is_about_the_evidence():
    history = History()
    history.world.detour = "HTTP_PROXY"
    history.mark("warmup begin", "warmup http").wait(32)
    history.answer(503)
    assert history.wait(2).state == states.STALLED
    history.world.bytes += 10  # the line of /server_info
    history.supervisor.on_evidence("folder")
    assert history.wait(1).state == states.DRAINING


def test_stalled_to_starting_when_the_warm_up_arrives_after_all():
    history = History()
    history.world.detour = "HTTP_PROXY"
    history.mark("warmup begin", "warmup http").wait(32)
    history.answer(503)
    history.wait(2).mark("serving begin")
    history.supervisor.on_evidence("folder")
    assert history.tick().state == states.STARTING
    assert history.tick().world.asked[-1] == "ready"


def test_stalled_to_serving_when_the_process_goes_on():
    history = History().serve().stop_process(SCHEDULER).wait(5)
    assert history.state == states.STALLED
    history.resume_process(SCHEDULER)
    history.supervisor.on_evidence("folder")
    assert history.tick().state == states.SERVING


def test_stalled_to_ready_by_way_of_serving():
    history = History().become_ready().stop_process(SCHEDULER).wait(5).resume_process(SCHEDULER)
    history.supervisor.on_evidence("folder")
    assert history.wait(40).state == states.READY


def test_stalled_to_draining_when_the_evidence_is_there():
    history = History().serve().stop_process(SCHEDULER).wait(5)
    assert history.wait(3).state == states.STALLED
    history.supervisor.on_evidence("folder")
    assert history.tick().state == states.DRAINING
    assert history.world.signals == [("main", signal.SIGTERM)]


def test_stalled_to_draining_when_the_evidence_hangs():
    assert History().serve().stop_process(SCHEDULER).wait(30).world.signals[0] == ("main", signal.SIGTERM)


def test_stalled_gives_sglang_time_for_its_own_end():
    history = History().serve().lose(SCHEDULER).wait(2)
    history.supervisor.on_evidence("folder")
    assert history.wait(8).world.signals == []
    assert history.wait(6).world.signals == [("main", signal.SIGTERM)]


def test_stalled_gives_sglang_no_minute_for_a_lost_detokenizer():
    history = History().serve().lose(DETOKENIZER).wait(2)
    history.supervisor.on_evidence("folder")
    assert history.wait(2).world.signals == []
    assert history.wait(2).world.signals == [("main", signal.SIGTERM)]


def test_stalled_to_dead_when_sglang_ends_itself():
    history = History().serve().lose(SCHEDULER, -9).wait(2).end(-9)
    assert states.DEAD in [change.after for change in history.arrows]
    assert history.world.explained == 1


# -- draining


def test_draining_to_dead_as_asked():
    history = History().serve()
    history.supervisor.on_signal(signal.SIGTERM)
    history.end(0)
    assert (history.state, history.world.explained) == (states.STOPPED, 0)


def test_draining_kills_after_the_deadline_and_says_so_once():
    history = History(stop_seconds=10.0).serve()
    history.supervisor.on_signal(signal.SIGTERM)
    assert ("all", signal.SIGKILL) not in history.wait(9).world.signals
    history.wait(3)
    assert ("all", signal.SIGKILL) in history.world.signals
    assert sum("killed" in text for text in history.world.said) == 1


def test_draining_kills_at_once_on_the_second_signal():
    history = History().serve()
    history.supervisor.on_signal(signal.SIGINT)
    history.supervisor.on_signal(signal.SIGINT)
    assert history.tick().world.signals == [("main", signal.SIGINT), ("all", signal.SIGKILL)]


def test_draining_leaves_what_cannot_be_killed():
    history = History(stop_seconds=1.0).serve()
    history.supervisor.on_signal(signal.SIGTERM)
    history.world.code = -9
    del history.world.people[MAIN]
    assert history.wait(30).state == states.STOPPED
    assert any("cannot be killed" in text for text in history.world.said)


# -- dead and backing off


def test_dead_to_backing_off_for_what_may_recover():
    assert History().serve().end(-9).state == states.BACKING_OFF


def test_dead_to_failed_for_what_cannot_recover():
    history = History()
    history.world.ending = Ending("ARGS001 misspelt-flag", "never", mendable=True, was_ready=False)
    assert history.end(2).state == states.FAILED


def test_dead_to_failed_without_restarts():
    assert History(restart="never").serve().end(-9).state == states.FAILED


def test_dead_to_failed_when_it_was_asked_to_stop_during_a_fault():
    history = History().serve().lose(SCHEDULER, -9).wait(2)
    history.supervisor.on_signal(signal.SIGTERM)
    assert history.end(-9).state == states.FAILED


def test_dead_to_stopped_with_code_0():
    assert History().become_ready().end(0).state == states.STOPPED


def test_backing_off_to_starting_after_the_pause():
    history = History().serve().end(-9)
    assert history.wait(4).state == states.BACKING_OFF
    assert history.wait(2).state == states.STARTING
    assert history.world.starts == [False, False]


def test_backing_off_to_starting_at_once_with_safe_edits():
    history = History(apply_safe=True)
    history.world.ending = Ending("ARGS001 misspelt-flag", "never", mendable=True, was_ready=False)
    history.end(2).tick()
    assert (history.state, history.world.starts) == (states.STARTING, [False, True])


def test_backing_off_mends_once_only():
    history = History(apply_safe=True)
    history.world.ending = Ending("ARGS001 misspelt-flag", "never", mendable=True, was_ready=False)
    history.end(2).tick().end(2)
    assert history.state == states.FAILED


def test_backing_off_to_stopped_on_a_signal():
    history = History().serve().end(-9)
    history.supervisor.on_signal(signal.SIGTERM)
    assert history.state == states.STOPPED


def test_backing_off_to_failed_while_the_gpu_is_held():
    history = History().serve().end(-9)
    history.world.held = "40 GiB of GPU memory are still held"
    assert history.wait(100).state == states.BACKING_OFF
    assert history.wait(40).state == states.FAILED


def test_backing_off_starts_once_the_gpu_is_free():
    history = History().serve().end(-9)
    history.world.held = "40 GiB"
    history.wait(30)
    assert history.world.said.count("not started again yet: 40 GiB") == 1
    history.world.held = ""
    assert history.wait(1).state == states.STARTING


# -- survivors


def test_command_that_goes_into_the_background_is_watched_on():
    history = History()
    history.world.code = 0
    del history.world.people[MAIN]
    history.tick()
    history.world.code = None
    assert history.wait(6).world.adopted == SCHEDULER


def test_orphans_of_a_crash_are_ended():
    history = History().serve()
    history.world.code = 1
    del history.world.people[MAIN]
    history.wait(6)
    assert ("all", signal.SIGTERM) in history.world.signals
    assert ("all", signal.SIGKILL) in history.wait(6).world.signals


def test_memory_guard_ends_a_start():
    history = History().mark("load begin")
    history.supervisor.on_memory("host memory runs out: 0.3 GiB left")
    assert history.tick().world.collected == ["host-memory"]
    history.supervisor.on_evidence("folder")
    assert history.tick().state == states.DRAINING

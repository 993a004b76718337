"""Several starts in one log: the last is diagnosed, the earlier ones are named."""

import re

import pytest

from tests.helpers import FIXTURES, explain_bytes, list_findings

H200 = FIXTURES / "recordings" / "h200"


def explain_starts(*names: str):
    return explain_bytes(("server.log", b"".join((H200 / f"{name}.log").read_bytes() for name in names)))


def test_last_start_healthy_names_the_failures_before() -> None:
    report = explain_starts("ordinal", "memfrac_low", "healthy")
    assert report.verdict == "healthy"
    assert [item.rule for item in report.diagnoses if item.role == "context"] == ["GPU002", "MEM003"]


def test_last_start_failing_is_the_cause_and_the_same_failure_is_counted() -> None:
    report = explain_starts("healthy", "ordinal", "ordinal", "memfrac_low")
    assert report.root is not None
    assert report.root.rule == "MEM003"
    earlier = [item for item in report.diagnoses if item.role == "context"]
    assert [(item.rule, item.times) for item in earlier] == [("GPU002", 2)]
    assert earlier[0].title.startswith("2 earlier starts in this log failed")


def test_start_without_an_answer_yields_to_the_one_before() -> None:
    started = (H200 / "healthy.log").read_bytes()[:6000]
    report = explain_bytes(("server.log", (H200 / "ordinal.log").read_bytes() + started))
    assert list_findings(report)[0] == "root GPU002"


def test_start_after_a_silent_kill_is_a_start_of_its_own() -> None:
    """A container that the kernel killed starts over in the same log, and nothing says that it ended."""
    killed = (H200 / "offload_deepseek_slow.log").read_bytes()
    once, thrice = explain_bytes(("server.log", killed)), explain_bytes(("server.log", killed * 3))
    assert list_findings(thrice)[0] == "root HOST001"
    assert thrice.facts["offload"] == once.facts["offload"]


def tag(pod: int, name: str) -> bytes:
    lines = (H200 / f"{name}.log").read_bytes().splitlines(keepends=True)
    return b"".join(b"[pod/sglang-%d/server] %s" % (pod, line) for line in lines)


def restamp(data: bytes, day: bytes) -> bytes:
    """Move a log to a time of its own, a second for each line."""
    lines = data.splitlines(keepends=True)
    return b"".join(
        re.sub(rb"\[20\d\d-\d\d-\d\d \d\d:\d\d:\d\d", b"[%s 00:%02d:%02d" % (day, at // 60 % 60, at % 60), line)
        for at, line in enumerate(lines)
    )


@pytest.mark.parametrize("order", [("healthy", "gpu_busy"), ("gpu_busy", "healthy")])
def test_replica_that_failed_is_diagnosed_whatever_the_order_of_the_pods(order: tuple[str, str]) -> None:
    """`kubectl logs -l app=sglang --prefix` prints one pod after the other."""
    data = b"".join(restamp(tag(pod, name), b"2026-04-24") for pod, name in enumerate(order))
    report = explain_bytes(("server.log", data))
    assert report.root is not None
    assert report.root.rule == "MEM002"


def test_pod_that_runs_on_lends_its_figures_to_no_other() -> None:
    data = restamp(tag(0, "healthy"), b"2026-04-23") + restamp(tag(1, "gpu_busy"), b"2026-04-24")
    report = explain_bytes(("server.log", data))
    assert report.root is not None
    assert report.root.rule == "MEM002"


def test_pod_that_takes_the_place_of_a_failed_one_is_diagnosed() -> None:
    data = restamp(tag(0, "gpu_busy"), b"2026-04-23") + restamp(tag(1, "healthy"), b"2026-04-24")
    report = explain_bytes(("server.log", data))
    assert report.verdict == "healthy"
    assert "context MEM002" in list_findings(report)


def test_later_log_appended_to_an_unfinished_one_is_diagnosed_alone() -> None:
    begun = restamp((H200 / "healthy.log").read_bytes()[:20_000], b"2026-04-23")
    failed = restamp((H200 / "gpu_busy.log").read_bytes(), b"2026-04-24")
    for data in (begun + failed, failed + begun):
        report = explain_bytes(("server.log", data))
        assert report.root is not None
        assert report.root.rule == "MEM002"


def test_restart_that_is_still_loading_is_not_called_healthy_for_what_the_start_before_served() -> None:
    served = restamp((H200 / "healthy.log").read_bytes(), b"2026-04-23")
    loading = restamp((H200 / "healthy.log").read_bytes()[:20_000], b"2026-04-24")
    report = explain_bytes(("server.log", served + loading))
    assert report.verdict == "incomplete"
    assert "ready" not in report.facts["startup"]

"""Several starts in one log: the last is diagnosed, the earlier ones are named."""

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

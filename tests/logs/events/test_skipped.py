from doctor.logs.events import skipped
from tests.logs.events.helpers import parse


def test_skipped_module_with_its_reason() -> None:
    (event,) = parse(
        skipped,
        "[2026-04-24 06:29:19] Ignore import error when loading sglang.srt.models.glm4v_moe: No module named 'x'\nmore\n",
    )
    assert (event.module, event.reason) == ("sglang.srt.models.glm4v_moe", "No module named 'x'")


def test_skipped_module_near_miss() -> None:
    assert parse(skipped, "[2026-04-24 06:29:19] Ignore import error when loading the model") == []


def test_skipped_module_reason_is_bounded() -> None:
    (event,) = parse(skipped, "Ignore import error when loading a.b: " + "x" * 100_000)
    assert len(event.reason) == 500

import pytest

from doctor.logs.events import memory
from tests.logs.events.helpers import parse

LINES = {
    "begin": ("Load weight begin. avail mem=78.53 GB", [("before_load", 78.53)]),
    "end to 0.5.8": (
        "Load weight end. type=LlamaForCausalLM, dtype=torch.bfloat16, avail mem=60.10 GB, mem usage=18.43 GB.",
        [("after_load", 60.1), ("weights", 18.43)],
    ),
    "end from 0.5.10": (
        "Load weight end. elapsed=7.10 s, type=X, quant=fp8, avail mem=60.10 GB, mem usage=18.43 GB.",
        [("after_load", 60.1), ("weights", 18.43)],
    ),
    "KV to 0.5.12": (
        "KV Cache is allocated. #tokens: 401, K size: 13.89 GB, V size: 13.11 GB",
        [("kv_tokens", 401), ("kv", 27.0)],
    ),
    "KV of MLA": (
        "KV Cache is allocated. dtype: torch.bfloat16, #tokens: 401, KV size: 13.89 GB",
        [("kv_tokens", 401), ("kv", 13.89)],
    ),
    "KV with a label": (
        "draft KV Cache is allocated. dtype: torch.bfloat16, #tokens: 401, K size: 0.00 GB, V size: 0.00 GB",
        [("kv_tokens", 401), ("kv", 0)],
    ),
    "pool": ("Memory pool end. avail mem=110.88 GB", [("after_pool", 110.88)]),
    "capture to 0.5.12": (
        "Capture cuda graph begin. This can take up to several minutes. avail mem=4.40 GB",
        [("capture", 4.4)],
    ),
    "capture from 0.5.22": (
        "Capture target decode CUDA graph end. bs=[1, 2], elapsed=3.51 s, mem usage=0.06 GB, avail mem=108.02 GB.",
        [("capture", 108.02)],
    ),
    "sized": (
        "max_total_num_tokens=58238694, chunked_prefill_size=8192, context_len=2048, available_gpu_mem=108.02 GB",
        [("max_total_tokens", 58238694)],
    ),
    "below zero": ("Memory pool end. avail mem=-0.32 GB", [("after_pool", -0.32)]),
}


@pytest.mark.parametrize(("message", "marks"), LINES.values(), ids=LINES)
def test_memory_mark(message: str, marks: list) -> None:
    events = parse(memory, f"[2026-04-24 06:29:19 TP0] {message}")
    assert [event.what for event in events] == [what for what, _ in marks]
    assert [event.value for event in events] == pytest.approx([value for _, value in marks])


@pytest.mark.parametrize(
    "message",
    [
        "Init torch distributed ends. mem usage=0.10 GB, avail mem=3 GB",
        "KV Cache VA upper bound. #tokens: 5",
        "Load weight begin. avail mem=. GB",
        "Load weight begin. avail mem= GB",
        "max_total_num_tokens=" + "9" * 6000,
        "KV Cache is allocated. #tokens: " + "9" * 6000,
        "we avail mem=3 GB",
    ],
)
def test_memory_near_miss(message: str) -> None:
    assert parse(memory, f"[2026-04-24 06:29:19 TP0] {message}") == []


def test_number_with_two_points_is_read_to_the_second() -> None:
    (event,) = parse(memory, "[2026-04-24 06:29:19] Load weight begin. avail mem=1.2.3 GB")
    assert event.value == 1.2

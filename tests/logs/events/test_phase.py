import pytest

from doctor.logs.events import phase
from tests.logs.events.helpers import parse

MARKS = {
    "server_args=ServerArgs(model_path='m')": ("args", "end"),
    "server_args={'model_path': 'm'}": ("args", "end"),
    "Init torch distributed begin.": ("dist-init", "begin"),
    "Init torch distributed ends. elapsed=1.23 s, mem usage=0.5 GB": ("dist-init", "end"),
    "Init parallel begin.": ("dist-init", "begin"),
    "Init parallel ends. elapsed=1.23 s": ("dist-init", "end"),
    "Load weight begin. avail mem=78.53 GB": ("load", "begin"),
    "Load weight end. type=X": ("load", "end"),
    "KV Cache is allocated. #tokens: 4": ("kv-pool", "begin"),
    "Memory pool end. avail mem=4 GB": ("kv-pool", "end"),
    "Capture cuda graph begin. This can take": ("capture", "begin"),
    "Capture cpu graph end. Time elapsed": ("capture", "end"),
    "Capture draft extend cuda graph begin. x": ("capture", "begin"),
    "Capture target verify CUDA graph end. bs=[1]": ("capture", "end"),
    "Capture piecewise CUDA graph begin. avail mem": ("capture", "begin"),
    "max_total_num_tokens=4096, chunked_prefill_size=4096": ("capture", "end"),
    "INFO:     Started server process [123]": ("warmup", "begin"),
    "INFO:     Uvicorn running on http://127.0.0.1:30000 (Press CTRL+C to quit)": ("warmup", "http"),
    "The server is fired up and ready to roll!": ("serving", "begin"),
    "SIGTERM received. signum=None": ("shutdown", "begin"),
    "INFO:     Shutting down": ("shutdown", "begin"),
    "INFO:     Finished server process [1]": ("shutdown", "end"),
    "Received sigquit from a child process. It usually means the child failed.": ("shutdown", "crash"),
    "SIGQUIT received. signum=None": ("shutdown", "crash"),
}


@pytest.mark.parametrize(("message", "expected"), MARKS.items())
def test_phase_mark(message: str, expected: tuple[str, str]) -> None:
    (event,) = parse(phase, f"[2026-04-24 06:29:19 TP0] {message}")
    assert (event.phase, event.edge) == expected
    assert event.phase in phase.PHASES


@pytest.mark.parametrize(
    "message",
    [
        "Capture the flag",
        "    launch_server(server_args=server_args)",
        "Capture cuda graph bs [1, 2, 4]",
        "x" * 300 + "Load weight begin",
        "Loading weights",
    ],
)
def test_phase_near_miss(message: str) -> None:
    assert parse(phase, f"[2026-04-24 06:29:19 TP0] {message}") == []


def test_phase_words_in_continuation_lines_do_not_count() -> None:
    assert parse(phase, "[2026-04-24 06:29:19] Initialization failed:\n  Load weight begin\n") == []

import pytest

from doctor.logs.events import stated
from tests.helpers import FIXTURES
from tests.logs.events.helpers import parse

FACTS = {
    "GPU: NVIDIA GeForce RTX 5090": ("gpu.name", "NVIDIA GeForce RTX 5090"),
    "Using default config: E=8,N=1,device_name=NVIDIA_H200,dtype=fp8.json": ("gpu.name", "NVIDIA_H200"),
    "Config file not found: device_name=NVIDIA_H200_down.json": ("gpu.name", "NVIDIA_H200"),
    "Compute capability: 12.0": ("gpu.capability", "12.0"),
    "NVIDIA X with CUDA capability sm_120 is not compatible": ("gpu.capability", "120"),
    "GPU 0 has a total capacity of 139.80 GiB of which": ("gpu.total_gib", 139.8),
    "os.environ.get('CUDA_VISIBLE_DEVICES')='4,5,6,7' self.tp_rank=4": ("env.CUDA_VISIBLE_DEVICES", "4,5,6,7"),
    "export CUDA_VISIBLE_DEVICES=0,1": ("env.CUDA_VISIBLE_DEVICES", "0,1"),
    "CUDA_VISIBLE_DEVICES=": ("env.CUDA_VISIBLE_DEVICES", ""),
    "CUDA_VISIBLE_DEVICES='' ./start.sh": ("env.CUDA_VISIBLE_DEVICES", ""),
    "CUDA_VISIBLE_DEVICES=GPU-8f1c,MIG-2/1/0; ./start.sh": ("env.CUDA_VISIBLE_DEVICES", "GPU-8f1c,MIG-2/1/0"),
    "The PyTorch version (2.13.0+cu130) is not compatible": ("torch.version", "2.13.0+cu130"),
    "torch==2.9.1 is required": ("torch.version", "2.9.1"),
    "PyTorch: 2.9.1+cu128": ("torch.version", "2.9.1+cu128"),
    "sglang: 0.5.6.post2": ("sglang.version", "0.5.6.post2"),
    "Successfully installed sglang==0.5.6": ("sglang.version", "0.5.6"),
    "SGLang version: 0.5.10": ("sglang.version", "0.5.10"),
    "image lmsysorg/sglang:v0.5.9-cu130": ("sglang.version", "0.5.9"),
    "CUDA Driver Version: 580.65.06": ("driver.version", "580.65.06"),
    "driver on your system is too old (found version 12040)": ("driver.cuda", 12040),
    "checkpoint has num_hidden_layers=61, dispatching": ("model.layers", 61),
    "Model architectures ['Qwen9ForCausalLM'] are not supported": ("model.unsupported", "Qwen9ForCausalLM"),
    "Uvicorn running on http://127.0.0.1:30000 (Press CTRL+C": ("http.url", "http://127.0.0.1:30000"),
    "Started server process [4242]": ("main.pid", 4242),
}


@pytest.mark.parametrize(("message", "expected"), FACTS.items())
def test_fact(message: str, expected: tuple) -> None:
    assert expected in [
        (event.name, event.value)
        for event in parse(stated, f"[2026-04-24 06:29:19] {message}") + parse(stated, message)
    ]


@pytest.mark.parametrize(
    ("line", "command"),
    [
        ("$ sglang serve --model-path m", "sglang serve --model-path m"),
        (
            "user@host:~/x$ CUDA_VISIBLE_DEVICES=0 python3 -m sglang.launch_server --model m",
            "CUDA_VISIBLE_DEVICES=0 python3 -m sglang.launch_server --model m",
        ),
        ("root@box:/sgl-workspace# sglang serve --model m --tp 2", "sglang serve --model m --tp 2"),
        ("~/.local/bin/sglang-ssd-stream serve --context 8192", "~/.local/bin/sglang-ssd-stream serve --context 8192"),
    ],
)
def test_command_typed_in_the_log(line: str, command: str) -> None:
    assert [event.value for event in parse(stated, line) if event.name == "command"] == [command]


@pytest.mark.parametrize(
    "line",
    [
        "'python -m sglang.launch_server' is still supported, but 'sglang serve' is the recommended entrypoint.",
        "Example: sglang serve --model-path [options]",
        "usage: sglang serve [-h]",
        "sglang serve: error: x",
        'File "/x/sglang.launch_server", line 1, in sglang serve',
        "import sglang.launch_server",
        "sglang server",
    ],
)
def test_command_near_miss(line: str) -> None:
    assert [event for event in parse(stated, line) if event.name == "command"] == []


@pytest.mark.parametrize(
    "line",
    [
        "os.environ.get('CUDA_VISIBLE_DEVICES')=None self.tp_rank=0",
        "CUDA_VISIBLE_DEVICES=$GPUS ./start.sh",
        "CUDA_VISIBLE_DEVICES is not set",
        "has a total capacity of 1.2.3 GiB",
        "has a total capacity of " + "9" * 6000 + " GiB",
        "Started server process [" + "9" * 6000 + "]",
        "num_hidden_layers=" + "9" * 6000,
        "(found version " + "9" * 6000 + ")",
        "GPU: 3 of 8",
    ],
)
def test_fact_near_miss(line: str) -> None:
    assert parse(stated, line) == []


@pytest.mark.parametrize(
    "line",
    [
        "sglang " + "@:" * 2000,
        "sglang " + "a@b:" * 1000,
        "sglang serve".replace(" ", "-") * 400,
        "device_name=" + "a" * 4000,
        "CUDA_VISIBLE_DEVICES" * 200,
    ],
)
def test_hostile_line_ends_in_time(line: str) -> None:
    parse(stated, "\n".join([line] * 50))


def test_facts_of_a_dump_or_a_bar_are_not_stated() -> None:
    assert parse(stated, "[2026-04-24 06:29:19] server_args=ServerArgs(note='torch==1.0 sglang serve x')") == []


def test_facts_of_a_real_log() -> None:
    found = {
        event.name: event.value
        for event in parse(stated, (FIXTURES / "seed/offload_vram_torchcodec_noise.log").read_bytes())
    }
    assert found["gpu.name"] == "NVIDIA GeForce RTX 5090"
    assert found["command"] == "~/.local/bin/sglang-ssd-stream serve --context 8192"
    assert found["torch.version"] == "2.13.0+cu130"

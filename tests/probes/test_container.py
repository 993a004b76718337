"""Launches that start a container, judged from outside by their options."""

import pytest

from doctor.launch.command import parse_command
from doctor.probes import container
from doctor.probes.base.context import Answer
from doctor.probes.base.edits import correct_command
from doctor.probes.base.interpreter import find_interpreter
from tests.probes.helpers import make_context, make_gpus, problems, statuses, write_program

GOOD = "--gpus all --ipc=host -p 30000:30000"
SERVER = "lmsysorg/sglang python3 -m sglang.launch_server --model-path /m --host 0.0.0.0 --port 30000"


def see(root, command, *programs, gpus=None):
    for name in programs:
        write_program(root / name, "#!/bin/sh\n")
    python = find_interpreter(None, parse_command(command), {})
    observed = {"gpus": gpus or make_gpus()}
    return make_context(root, command, {"PATH": str(root)}, observed)._replace(python=python)


def see_docker(root, options=GOOD, server=SERVER, gpus=None):
    return see(root, f"docker run {options} {server}", "docker", "nvidia-ctk", gpus=gpus)


def test_launch_without_a_container_is_not_judged(tmp_path):
    assert statuses(container, make_context(tmp_path, "sglang serve --model-path /m")) == ["not-applicable"]


@pytest.mark.parametrize(
    "options",
    [
        GOOD,
        "--gpus=all --shm-size 32g",
        "--rm -it --runtime=nvidia --ipc host",
        "--device nvidia.com/gpu=all --ipc=host",
    ],
)
def test_container_with_all_it_needs(tmp_path, options):
    assert statuses(container, see_docker(tmp_path, options, f"{SERVER} --tp 2")) == ["ok"]


@pytest.mark.parametrize(
    ("options", "server", "words"),
    [
        ("--ipc=host", SERVER, "without GPUs"),
        ("--gpus all", f"{SERVER} --tp 2", "64 MiB"),
        (GOOD, SERVER.replace("--host 0.0.0.0 ", ""), "listens on 127.0.0.1"),
        (GOOD, SERVER.replace("--host 0.0.0.0", "--host localhost"), "listens on localhost"),
    ],
)
def test_container_that_lacks_something(tmp_path, options, server, words):
    (found,) = problems(container, see_docker(tmp_path, options, server))
    assert (found.severity, words in found.summary) == ("warning", True)


def test_server_that_nobody_reaches_is_corrected(tmp_path):
    context = see_docker(tmp_path, GOOD, SERVER.replace("--host 0.0.0.0 ", ""))
    assert correct_command(context.launch, problems(container, context)).endswith("--host 0.0.0.0")


@pytest.mark.parametrize(
    ("options", "server"),
    [
        (f"{GOOD} --network host", SERVER.replace("--host 0.0.0.0 ", "")),
        (f"{GOOD} --net=host", SERVER.replace("--host 0.0.0.0 ", "")),
        ("--ipc=host", f"{SERVER} --device cpu"),
        ("--gpus all", SERVER),
        ("-e NVIDIA_VISIBLE_DEVICES=all", SERVER),
    ],
)
def test_container_that_does_not_need_it(tmp_path, options, server):
    assert problems(container, see_docker(tmp_path, options, server)) == []


def test_docker_that_is_missing(tmp_path):
    (found,) = problems(container, see(tmp_path, f"docker run {GOOD} {SERVER}"))
    assert (found.severity, found.summary) == ("error", "docker is not on PATH")


def test_toolkit_that_is_missing_where_a_gpu_is(tmp_path):
    command = f"docker run {GOOD} {SERVER}"
    assert "nvidia-container-toolkit" in problems(container, see(tmp_path, command, "docker"))[0].summary
    assert problems(container, see(tmp_path, command, "docker", gpus=Answer(None, "no library"))) == []


@pytest.mark.parametrize("start", ["docker exec -it box", "docker compose run --rm sglang"])
def test_command_whose_container_is_described_elsewhere_has_no_options(tmp_path, start):
    command = f"{start} python3 -m sglang.launch_server --model-path /m --tp 2"
    assert statuses(container, see(tmp_path, command)) == ["ok"]


@pytest.mark.parametrize(("line", "count"), [("ipc: host", 1), ("network_mode: host", 0)])
def test_compose_file_with_its_command_as_one_text(tmp_path, line, count):
    text = f"services:\n  s:\n    {line}\n    command: python3 -m sglang.launch_server --model-path /m --tp 2\n"
    assert len(problems(container, see(tmp_path, text))) == count


@pytest.mark.parametrize(
    ("line", "count"), [("restartPolicy: Never", 1), ("hostNetwork: true", 0), ("network_mode: host", 0)]
)
def test_pod_whose_server_nobody_reaches(tmp_path, line, count):
    text = f'spec:\n  {line}\n  containers:\n  - command: ["python3", "-m", "sglang.launch_server", "--model-path", "/m"]\n'
    assert len(problems(container, see(tmp_path, text))) == count

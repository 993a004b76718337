"""Which Python a launch would get, from real files."""

import os

import pytest

from doctor.errors import DoctorError
from doctor.launch.command import parse_command
from doctor.probes.base.interpreter import find_interpreter
from doctor.probes.base.launch import overlay
from tests.probes.helpers import write_program


@pytest.fixture
def venv(tmp_path):
    folder = tmp_path / "venv" / "bin"
    folder.mkdir(parents=True)
    write_program(folder / "python", "#!/bin/sh\n")
    write_program(folder / "python3", "#!/bin/sh\n")
    return folder


def find(command, given=None, **environment):
    return find_interpreter(given, parse_command(command) if command else None, {"PATH": "/nonexistent", **environment})


def test_python_of_the_command(venv):
    assert find(f"{venv}/python3 -m sglang.launch_server --model-path m").path == f"{venv}/python3"


def test_python_of_the_command_by_path(venv):
    assert find("python3 -m sglang.launch_server --model-path m", PATH=str(venv)).path == f"{venv}/python3"


@pytest.mark.parametrize(
    "head",
    [
        "#!{venv}/python3\n",
        "#! {venv}/python3 -I\n",
        "#!/usr/bin/env python3\n",
        "#!/bin/sh\n'''exec' \"{venv}/python3\" \"$0\" \"$@\"\n' '''\n",
    ],
)
def test_shebang_of_the_script(venv, head):
    write_program(venv / "sglang", head.format(venv=venv))
    assert find("sglang serve --model-path m", PATH=str(venv)).path == f"{venv}/python3"


def test_shebang_of_a_wrapper(venv, tmp_path):
    script = write_program(tmp_path / "serve.py", f"#!{venv}/python3\n")
    assert find(f"{script} --model-path m").path == f"{venv}/python3"


def test_script_in_shell_gives_no_python(venv):
    write_program(venv / "sglang", "#!/bin/bash\nexec true\n")
    assert find("sglang serve --model-path m", PATH=str(venv)).origin == "python3 on PATH"


def test_launch_in_a_container_has_no_python_here():
    found = find("docker run --gpus all lmsysorg/sglang:latest python3 -m sglang.launch_server --model-path m")
    assert found.path is None
    assert "container" in found.origin


def test_given_venv(venv):
    assert find("", str(venv.parent)).path == f"{venv}/python"


def test_given_name_on_path(venv):
    assert find("", "python3", PATH=str(venv)).path == f"{venv}/python3"


def test_given_path_that_is_no_python():
    with pytest.raises(DoctorError, match="no interpreter"):
        find("", "/nonexistent")


def test_active_environment(venv):
    assert find("", VIRTUAL_ENV=str(venv.parent)).origin == "the active environment"


@pytest.mark.parametrize(
    "start",
    [
        "source {venv}/bin/activate && python",
        ". {venv}/bin/activate; python3",
        "bash -lc 'source {venv}/bin/activate && exec python'",
        "source /elsewhere/bin/activate; source {venv}/bin/activate && python",
        "conda run -p {venv} python",
        "conda activate {venv} && python",
    ],
)
def test_environment_that_the_launch_enters(venv, start):
    command = f"{start} -m sglang.launch_server --model-path m"
    if command.startswith("bash"):
        command = f"{start[:-1]} -m sglang.launch_server --model-path m'"
    assert find(command.format(venv=venv.parent)).path == f"{venv}/python"


def test_conda_environment_by_name(venv, tmp_path):
    (tmp_path / "conda/envs").mkdir(parents=True)
    os.symlink(venv.parent, tmp_path / "conda/envs/sg")
    environment = {"CONDA_EXE": f"{tmp_path}/conda/bin/conda", "HOME": "/nonexistent"}
    for start in ("conda run --no-capture-output -n sg", "mamba activate sg &&"):
        found = find(f"{start} python -m sglang.launch_server --model-path m", **environment)
        assert found.path == f"{tmp_path}/conda/envs/sg/bin/python"


@pytest.mark.parametrize(
    ("start", "words"),
    [
        ("source /srv/none/bin/activate && python", "/srv/none, not here"),
        ("source $VENV/bin/activate && python", "$VENV, not here"),
        ("conda activate nobody && python", "nobody, not here"),
        ("poetry run python", "poetry chooses"),
        ("uv run python", "uv chooses"),
    ],
)
def test_environment_that_cannot_be_found_is_not_replaced_by_another(tmp_path, monkeypatch, start, words):
    monkeypatch.chdir(tmp_path)
    found = find(f"{start} -m sglang.launch_server --model-path m", HOME="/nonexistent")
    assert (found.path, words in found.origin) == (None, True)


def test_project_folder_s_own_environment(venv, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    os.symlink(venv.parent, tmp_path / ".venv")
    assert find("uv run sglang serve --model-path m").path == f"{tmp_path}/.venv/bin/python"
    monkeypatch.chdir("/")
    assert find("uv run sglang serve --model-path m").path is None
    command = f"uv run --project {tmp_path} sglang serve --model-path m"
    assert find(command).path == f"{tmp_path}/.venv/bin/python"


def test_launch_on_another_machine_is_refused():
    with pytest.raises(DoctorError, match="another machine"):
        find("ssh host python3 -m sglang.launch_server --model-path m")


def test_python_by_path_wins_over_an_environment(venv):
    assert (
        find(f"source /elsewhere/bin/activate && {venv}/python -m sglang.launch_server --model-path m").path
        == f"{venv}/python"
    )


def test_path_that_is_put_in_front_of_the_present_one(venv):
    command = parse_command(f"PATH={venv}:$PATH python -m sglang.launch_server --model-path m")
    environment = overlay({"PATH": "/usr/bin:/bin"}, command)
    assert environment["PATH"] == f"{venv}:/usr/bin:/bin"
    assert find_interpreter(None, command, environment).path == f"{venv}/python"


def test_variable_whose_value_is_not_known_is_left_out():
    command = parse_command("HF_HOME=$DATA/hf sglang serve --model-path m")
    assert "HF_HOME" not in overlay({}, command)

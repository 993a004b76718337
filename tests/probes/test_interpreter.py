"""Which Python a launch would get, from real files."""

import pytest

from doctor.errors import DoctorError
from doctor.launch.command import parse_command
from doctor.probes.base.interpreter import find_interpreter
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


def test_given_path_that_is_no_python():
    with pytest.raises(DoctorError, match="no interpreter"):
        find("", "/nonexistent")


def test_active_environment(venv):
    assert find("", VIRTUAL_ENV=str(venv.parent)).origin == "the active environment"

"""Probes of the group tools, over real programs in a folder."""

import pytest

from doctor.probes import caches, compilers
from tests.probes.helpers import (
    make_context,
    make_device,
    make_gpus,
    make_package,
    make_python,
    make_torch,
    problems,
    statuses,
    write,
    write_program,
)

TOOLS = {"g++": "", "gcc": "", "ninja": "", "nvcc": "Cuda compilation tools, release {version}, V1"}


def see_tools(root, *missing, version="13.0", capability=(9, 0), **interpreter):
    folder = root / "bin"
    folder.mkdir(exist_ok=True)
    for name, text in TOOLS.items():
        if name not in missing:
            write_program(folder / name, f"#!/bin/sh\necho '{text.format(version=version)}'\n")
    write(root, "/usr/lib/x86_64-linux-gnu/libcuda.so.1", "")
    observed = {
        "gpus": make_gpus(make_device(capability=list(capability))),
        "python": make_python(make_torch(), **interpreter),
    }
    return make_context(root, environment={"PATH": f"{folder}"}, observed=observed)


def test_tools_that_are_there(tmp_path):
    assert statuses(compilers, see_tools(tmp_path)) == ["ok"]


@pytest.mark.parametrize(
    ("name", "severity"), [("g++", "warning"), ("gcc", "error"), ("ninja", "warning"), ("nvcc", "warning")]
)
def test_tool_that_is_missing(tmp_path, name, severity):
    assert [found.severity for found in problems(compilers, see_tools(tmp_path, name))] == [severity]


def test_python_headers_that_are_missing(tmp_path):
    assert "Python.h of Python 3.12" in problems(compilers, see_tools(tmp_path, headers=False))[0].summary


@pytest.mark.parametrize(
    ("version", "capability", "words"),
    [
        ("12.4", (10, 0), "sm100 needs 12.8"),
        ("12.8", (10, 3), "sm103 needs 12.9"),
        ("12.8", (12, 1), "sm121 needs 12.9"),
        ("12.9", (11, 0), "sm110 needs 13.0"),
        ("11.7", (9, 0), "sm90 needs 11.8"),
    ],
)
def test_nvcc_too_old_for_a_gpu(tmp_path, version, capability, words):
    found = problems(compilers, see_tools(tmp_path, version=version, capability=capability))
    assert words in found[0].summary


@pytest.mark.parametrize("name", ["CUDA_HOME", "CUDA_PATH"])
def test_nvcc_is_looked_for_in_cuda_home_alone_when_that_is_set(tmp_path, name):
    context = see_tools(tmp_path)
    context = context._replace(environment={**context.environment, name: "/usr/local/cuda-99"})
    (found,) = problems(compilers, context)
    assert found.summary.startswith(f"{name}=/usr/local/cuda-99 holds no bin/nvcc")


def test_c_compiler_that_triton_is_told_of(tmp_path):
    context = see_tools(tmp_path, "gcc")
    write_program(tmp_path / "bin" / "icx", "#!/bin/sh\n")
    assert problems(compilers, context._replace(environment={**context.environment, "CC": "icx -O2"})) == []


def test_nvcc_of_another_major_than_torch(tmp_path):
    (found,) = problems(compilers, see_tools(tmp_path, version="12.8"))
    assert found.severity == "warning"


def test_nothing_is_compiled_without_a_gpu(tmp_path):
    context = make_context(
        tmp_path, "sglang serve --model-path /m --device cpu", observed={"python": make_python(make_package("x", "1"))}
    )
    assert statuses(compilers, context) == ["not-applicable"]


def test_home_that_does_not_exist(tmp_path):
    assert problems(caches, make_context(tmp_path, environment={"HOME": "/nope"}))[0].severity == "error"


def test_cache_that_is_relative(tmp_path):
    write(tmp_path, "/root/x", "")
    (found,) = problems(caches, make_context(tmp_path, environment={"TRITON_CACHE_DIR": "cache"}))
    assert "relative" in found.summary


def test_cache_that_is_a_file(tmp_path):
    write(tmp_path, "/root/x", "")
    (found,) = problems(caches, make_context(tmp_path, environment={"HF_HOME": "/root/x"}))
    assert "is a file" in found.summary

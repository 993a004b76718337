"""Probes of the Python group."""

import pytest

from doctor.probes import duplicates, imports, interpreter, packages
from doctor.probes.base.context import Answer, Interpreter
from doctor.probes.base.edits import correct_command
from tests.probes.helpers import (
    LAUNCH,
    make_device,
    make_gpus,
    make_package,
    make_python,
    make_sglang,
    make_torch,
    problems,
    run,
    see_python,
    statuses,
)


def test_interpreter_that_works(tmp_path):
    assert statuses(interpreter, see_python(tmp_path, make_python(make_sglang()))) == ["ok"]


def test_interpreter_that_is_not_found(tmp_path):
    context = see_python(tmp_path, None)._replace(python=Interpreter(None, "the launch runs in a container"))
    (found,) = run(interpreter, context)
    assert (found.status, found.reason) == ("unknown", "the launch runs in a container")


def test_interpreter_that_does_not_start(tmp_path):
    context = see_python(tmp_path, Answer(None, "it was killed by SIGSEGV"))
    (found,) = problems(interpreter, context)
    assert found.evidence == ("it was killed by SIGSEGV",)


def test_python_older_than_sglang_wants(tmp_path):
    row = make_sglang("0.5.23")
    row["requires_python"] = ">=3.11"
    (found,) = problems(interpreter, see_python(tmp_path, make_python(row, version="3.10.4")))
    assert "3.10.4" in found.summary


@pytest.mark.parametrize(("command", "severity"), [("", "warning"), (LAUNCH, "error")])
def test_python_older_than_any_sglang_wants(tmp_path, command, severity):
    (found,) = problems(interpreter, see_python(tmp_path, make_python(version="3.8.18"), command))
    assert (found.summary, found.severity) == ("Python 3.8.18, but SGLang needs >=3.10", severity)


@pytest.mark.parametrize(("libc", "good"), [("2.39", True), ("2.34", True), ("2.31", False)])
def test_wheel_for_a_newer_glibc(tmp_path, libc, good):
    row = make_sglang("0.5.15", tags=["cp312-cp312-manylinux_2_34_x86_64"])
    found = problems(interpreter, see_python(tmp_path, make_python(row, libc=["glibc", libc])))
    assert (found == []) is good


def test_wheel_for_another_machine(tmp_path):
    row = make_sglang("0.5.15", tags=["cp312-cp312-manylinux_2_34_x86_64"])
    (found,) = problems(interpreter, see_python(tmp_path, make_python(row, machine="aarch64")))
    assert "built for x86_64" in found.summary


@pytest.mark.parametrize(
    ("command", "severity"), [("", "warning"), ("sglang serve --model-path /m", "warning"), (LAUNCH, "error")]
)
def test_file_that_hides_a_module(tmp_path, command, severity):
    (found,) = problems(interpreter, see_python(tmp_path, make_python(shadows=["numpy.py"]), command))
    assert ("numpy.py" in found.summary, found.severity) == (True, severity)
    assert found.facts[0] == ("python.version", "3.12.3")


REQUIRES = ("torch==2.11.0", "sglang-kernel==0.4.4", "flashinfer_python[cu13]==0.6.12", 'runai; extra == "x"', "tqdm")

GOOD = (
    make_torch(),
    make_package("sglang-kernel", "0.4.4"),
    make_package("flashinfer-python", "0.6.12"),
    make_package("tqdm", "4"),
)


def test_packages_that_fit(tmp_path):
    assert statuses(packages, see_python(tmp_path, make_python(make_sglang("0.5.15.post1", *REQUIRES), *GOOD))) == [
        "ok"
    ]


def test_package_of_another_version(tmp_path):
    rows = (make_torch("2.9.1+cu128", "12.8"), *GOOD[1:])
    (found,) = problems(packages, see_python(tmp_path, make_python(make_sglang("0.5.15.post1", *REQUIRES), *rows)))
    assert found.severity == "error"
    assert "torch 2.9.1+cu128, wanted ==2.11.0" in found.summary
    assert "torch==2.11.0" in found.fixes[0]


@pytest.mark.parametrize(
    ("name", "version", "severity"),
    [
        ("torch", "2.11.1+cu130", "warning"),
        ("torch", "2.12.0", "error"),
        ("sglang-kernel", "0.4.3.post2", "error"),
        ("sglang-kernel", "0.4.5", "warning"),
        ("flashinfer-python", "0.6.11", "error"),
        ("transformers", "5.12.2", "warning"),
    ],
)
def test_package_of_another_version_is_as_bad_as_sglang_and_the_abi_take_it(tmp_path, name, version, severity):
    requires = (*REQUIRES, "transformers==5.12.1")
    rows = [*(row for row in GOOD if row["name"] != name), make_package(name, version)]
    rows += [] if name == "transformers" else [make_package("transformers", "5.12.1")]
    context = see_python(tmp_path, make_python(make_sglang("0.5.15.post1", *requires), *rows), LAUNCH)
    assert [found.severity for found in problems(packages, context)] == [severity]


@pytest.mark.parametrize(
    ("row", "flags", "severity"),
    [
        (make_package("flashinfer-python", "0.6.11"), "--attention-backend triton", "warning"),
        (make_package("flashinfer-python", "0.6.11"), "--attention-backend flashinfer", "error"),
        (make_package("flashinfer-python", "0.6.12"), "--grammar-backend none", "warning"),
        (make_package("flashinfer-python", "0.6.12"), "--grammar-backend xgrammar", "error"),
        (make_package("flashinfer-python", "0.6.12"), "", "error"),
    ],
)
def test_package_of_a_backend_counts_when_the_launch_takes_that(tmp_path, row, flags, severity):
    """flashinfer is too old in some of the rows; xgrammar is missing in the others."""
    requires = (*REQUIRES, *(["xgrammar==0.2.1"] if row["version"] == "0.6.12" else []))
    python = make_python(make_sglang("0.5.15.post1", *requires), *GOOD[:2], row, GOOD[3])
    found = problems(packages, see_python(tmp_path, python, f"{LAUNCH} {flags}"))
    assert [problem.severity for problem in found] == [severity]


def test_packages_for_gpus_may_be_missing_where_no_gpu_is(tmp_path):
    python = make_python(make_sglang("0.5.15.post1", *REQUIRES), GOOD[0], GOOD[3])
    nothing = {"gpus": Answer(None, "NVML: its library is not here")}
    assert [found.severity for found in problems(packages, see_python(tmp_path, python, observed=nothing))] == [
        "warning"
    ]
    for command, gpus in ((LAUNCH, nothing), ("", {"gpus": make_gpus()})):
        found = problems(packages, see_python(tmp_path, python, command, observed=gpus))
        assert found[0].severity == "error"


def test_packages_give_the_facts_of_all_requirements_beside_a_fault(tmp_path):
    python = make_python(make_sglang("0.5.15.post1", *REQUIRES), *GOOD[:3])
    (found,) = run(packages, see_python(tmp_path, python))
    assert dict(found.facts)["package.torch"] == "2.11.0+cu130"
    assert dict(found.facts)["package.tqdm"] == "(none)"


def test_package_that_only_some_need_is_a_warning(tmp_path):
    (found,) = problems(packages, see_python(tmp_path, make_python(make_sglang("0.5.15.post1", *REQUIRES), *GOOD[:3])))
    assert found.severity == "warning"
    assert "tqdm is missing" in found.evidence[0]


def test_sglang_missing_with_an_old_driver_gets_an_old_release(tmp_path):
    context = see_python(tmp_path, make_python(make_torch()), LAUNCH, observed={"gpus": make_gpus(cuda=12080)})
    (found,) = problems(packages, context)
    assert "'sglang<0.5.12'" in found.fixes[0]


def test_sglang_from_a_folder_without_metadata(tmp_path):
    (found,) = problems(packages, see_python(tmp_path, make_python(sglang_at="/src/sglang/__init__.py")))
    assert "without metadata" in found.summary


def test_two_copies_of_torch(tmp_path):
    rows = (make_torch(), make_package("torch", "2.9.1", "/root/.local/lib"))
    (found,) = problems(duplicates, see_python(tmp_path, make_python(*rows)))
    assert "2 times" in found.summary


def test_same_version_twice_is_no_duplicate(tmp_path):
    rows = (make_package("torch", "2.11.0"), make_package("torch", "2.11.0", "/other"))
    assert statuses(duplicates, see_python(tmp_path, make_python(*rows))) == ["ok"]


def test_old_and_new_kernel_package(tmp_path):
    rows = (make_package("sgl-kernel", "0.3.21"), make_package("sglang-kernel", "0.4.4"))
    (found,) = problems(duplicates, see_python(tmp_path, make_python(*rows)))
    assert found.severity == "error"
    assert "uninstall -y sgl-kernel sglang-kernel" in found.fixes[0]


@pytest.mark.parametrize(("version", "severity"), [("0.4.4", "warning"), ("0.3.21", "error"), ("", "error")])
def test_old_and_new_kernel_package_by_the_files_that_won(tmp_path, version, severity):
    rows = (make_package("sgl-kernel", "0.3.21"), make_package("sglang-kernel", "0.4.4"))
    observed = {"imports": {"sgl_kernel": {"version": version}}}
    assert [
        found.severity for found in problems(duplicates, see_python(tmp_path, make_python(*rows), observed=observed))
    ] == [severity]


@pytest.mark.parametrize(("version", "good"), [("11.5.3", False), ("12.0.0", True), ("13.0.1", True)])
def test_pynvml_needs_nvidia_ml_py_from_12_on(tmp_path, version, good):
    rows = (make_package("pynvml", version), make_package("nvidia-ml-py", "13.580.82"))
    assert (problems(duplicates, see_python(tmp_path, make_python(*rows))) == []) is good


def test_flashinfer_parts_of_two_versions(tmp_path):
    rows = (make_package("flashinfer-python", "0.6.12"), make_package("flashinfer-cubin", "0.6.11"))
    assert "does not belong" in problems(duplicates, see_python(tmp_path, make_python(*rows)))[0].summary


def test_flashinfer_parts_that_differ_in_the_local_version_only(tmp_path):
    rows = (make_package("flashinfer-python", "0.6.12"), make_package("flashinfer-jit-cache", "0.6.12+cu130"))
    assert problems(duplicates, see_python(tmp_path, make_python(*rows))) == []


STACK = make_python(make_sglang("0.5.15.post1", *REQUIRES), *GOOD)


def see_imports(root, modules, command=LAUNCH, reason=""):
    observed = {"imports": Answer(modules, reason), "gpus": make_gpus(make_device())}
    return see_python(root, STACK, command, observed=observed)


TORCH = {"torch": {"version": "2.11.0"}, "cuda": {"count": 1, "built": True}}

KERNEL = {"sgl_kernel": {"version": "0.4.4"}, "sgl_kernel.flash_attn": {"version": ""}}


def test_imports_that_work(tmp_path):
    assert statuses(imports, see_imports(tmp_path, {**TORCH, **KERNEL})) == ["ok"]


@pytest.mark.parametrize(
    ("error", "words"),
    [
        ("ImportError: x.so: undefined symbol: _ZN3c104cuda29c10_cuda_check", "another torch"),
        ("ImportError: undefined symbol: cuGreenCtxStreamCreate", "newer NVIDIA driver"),
        ("ImportError: undefined symbol: cublasLtMatmulAlgoGetHeuristic", "other libraries"),
        ("ImportError: undefined symbol: cudaGetDriverEntryPointByVersion", "other libraries"),
        ("ImportError: libnuma.so.1: cannot open shared object file", "libnuma"),
        ("ImportError: libcuda.so.1: cannot open shared object file", "no libcuda"),
        ("ImportError: libnvrtc.so.12: cannot open shared object file", "misses libnvrtc.so.12"),
        ("killed by signal 11", "crashes"),
        ("ValueError: odd", "cannot be imported"),
    ],
)
def test_kernel_package_that_fails(tmp_path, error, words):
    (found,) = problems(imports, see_imports(tmp_path, {**TORCH, "sgl_kernel": {"error": error}}))
    assert words in found.summary
    assert found.severity == "error"


def test_torch_that_does_not_import(tmp_path):
    (found,) = problems(imports, see_imports(tmp_path, {"torch": {"error": "OSError: libtorch_cuda.so"}}))
    assert "torch==2.11.0" in found.fixes[0]


@pytest.mark.parametrize(
    ("error", "words"), [("RuntimeError: Error 802: system not yet", "802"), ("driver is too old", "too old")]
)
def test_cuda_that_does_not_start(tmp_path, error, words):
    (found,) = problems(imports, see_imports(tmp_path, {**TORCH, **KERNEL, "cuda": {"error": error}}))
    assert words in found.summary


@pytest.mark.parametrize("value", ["", "0,0"])
def test_cuda_error_of_a_wrong_variable_belongs_to_another_probe(tmp_path, value):
    context = see_imports(
        tmp_path,
        {**TORCH, **KERNEL, "cuda": {"error": "No CUDA GPUs are available"}},
        f"CUDA_VISIBLE_DEVICES='{value}' {LAUNCH}",
    )
    assert problems(imports, context) == []


NO_FLASH = {
    "sgl_kernel": {"version": "0.4.4"},
    "sgl_kernel.flash_attn": {"error": "ImportError: Can not import FA3 in sgl_kernel"},
}


@pytest.mark.parametrize(("flags", "words"), [("", "the default on Hopper"), ("--attention-backend fa3", "asked for")])
def test_kernel_package_without_flash_attention(tmp_path, flags, words):
    context = see_imports(tmp_path, {**TORCH, **NO_FLASH}, f"{LAUNCH} {flags}".strip())
    (found,) = problems(imports, context)
    assert words in found.summary
    assert correct_command(context.launch, [found]).endswith("--attention-backend triton")


def test_kernel_package_without_flash_attention_that_is_not_used(tmp_path):
    assert problems(imports, see_imports(tmp_path, {**TORCH, **NO_FLASH}, f"{LAUNCH} --attention-backend triton")) == []


def test_kernel_package_that_is_missing(tmp_path):
    observed = {
        "imports": {**TORCH, "sgl_kernel": {"error": "ModuleNotFoundError: No module named 'sgl_kernel'"}},
        "gpus": make_gpus(),
    }
    context = see_python(
        tmp_path, make_python(make_sglang("0.5.15.post1", *REQUIRES), make_torch()), LAUNCH, observed=observed
    )
    (found,) = problems(imports, context)
    assert "sglang-kernel==0.4.4" in found.fixes[0]


def test_kernel_package_that_no_cuda_launch_needs(tmp_path):
    modules = {**TORCH, "sgl_kernel": {"error": "ModuleNotFoundError: No module named 'sgl_kernel'"}}
    observed = {"imports": modules, "gpus": Answer(None, "NVML: its library is not here")}
    python = make_python(make_sglang(), make_torch())
    assert problems(imports, see_python(tmp_path, python, f"{LAUNCH} --device npu", observed=observed)) == []


def test_kernel_package_without_libcuda_is_a_warning_where_no_gpu_is(tmp_path):
    modules = {**TORCH, "sgl_kernel": {"error": "ImportError: libcuda.so.1: cannot open shared object file"}}
    observed = {"imports": modules, "gpus": Answer(None, "NVML: its library is not here")}
    assert [found.severity for found in problems(imports, see_python(tmp_path, STACK, observed=observed))] == [
        "warning"
    ]


def test_imports_of_an_interpreter_that_does_not_work_are_its_own_fault(tmp_path):
    observed = {"imports": Answer({"torch": {"error": "it ended with code 1"}}, "it ended with code 1")}
    (found,) = run(imports, see_python(tmp_path, Answer(None, "SyntaxError: invalid syntax"), observed=observed))
    assert (found.status, found.reason) == ("unknown", "SyntaxError: invalid syntax")


def test_imports_that_time_out_are_unknown(tmp_path):
    assert statuses(imports, see_imports(tmp_path, TORCH, reason="python gave no answer within 17 s")) == ["unknown"]

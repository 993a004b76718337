import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from doctor.errors import DoctorError
from doctor.memory import gpus
from doctor.memory.units import GIB


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("RTX 5090", "RTX 5090"),
        ("NVIDIA GeForce RTX 5090", "RTX 5090"),
        ("5090", "RTX 5090"),
        ("NVIDIA H200", "H200"),
        ("NVIDIA H100 80GB HBM3", "H100"),
        ("NVIDIA H100 NVL", "H100 NVL"),
        ("NVIDIA A100-SXM4-80GB", "A100 80GB"),
        ("NVIDIA A100-SXM4-40GB", "A100 40GB"),
        ("a100", "A100 40GB"),
        ("NVIDIA A10", "A10"),
        ("NVIDIA A10G", "A10G"),
        ("NVIDIA L40S", "L40S"),
        ("Tesla T4", "Tesla T4"),
        ("NVIDIA B300 SXM6 AC", "B300"),
        ("NVIDIA RTX PRO 6000 Blackwell Max-Q Workstation Edition", "RTX PRO 6000 Blackwell"),
        ("NVIDIA RTX 6000 Ada Generation", "RTX 6000 Ada"),
        ("RTX 3090 Ti", "RTX 3090 Ti"),
        ("NVIDIA GeForce RTX 4070 Ti SUPER", "RTX 4070 Ti Super"),
    ],
)
def test_find_gpu_however_it_is_written(name, found):
    assert gpus.find_gpu(name).name == found


@pytest.mark.parametrize("row", gpus.TABLE, ids=[row[0] for row in gpus.TABLE])
def test_find_gpu_of_every_table_name_is_itself(row):
    assert gpus.find_gpu(row[0]).memory_mib == row[1]


@pytest.mark.parametrize("name", ["", "NVIDIA", "Voodoo", "RTX", "GPU", "x" * 500])
def test_find_gpu_of_an_unknown_name_suggests_others(name):
    with pytest.raises(DoctorError) as error:
        gpus.find_gpu(name)
    assert error.value.hint


@settings(deadline=None)
@given(st.text(max_size=60))
def test_find_gpu_of_any_text_returns_or_raises_doctor_error(name):
    try:
        assert gpus.find_gpu(name).memory_mib > 0
    except DoctorError:
        assert name is not None


def test_usable_memory_of_the_recorded_h200():
    """139.80 GiB in the recorded out-of-memory message; 31.36 GiB on an RTX 5090 in public ones."""
    assert gpus.find_gpu("H200").usable / GIB == pytest.approx(139.80, rel=0.002)
    assert gpus.find_gpu("RTX 5090").usable / GIB == pytest.approx(31.36, rel=0.002)


def test_describe_machine_of_words():
    machine = gpus.describe_machine("RTX 5090", 2, "96GiB")
    assert (machine.gpus, machine.ram, machine.ram_available) == (2, 96 * GIB, 96 * GIB)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("Tesla V100 32GB", "older than Turing"),
        ("Tesla T4", "no bf16"),
        ("A100 80GB", "fp8 as weights only"),
        ("RTX 4090", "Ada, sm89: bf16, fp8"),
        ("H200", "FlashAttention 3"),
        ("B300", "Blackwell, sm103"),
        ("RTX 5090", "Blackwell (RTX), sm120: bf16, fp8, fp4"),
    ],
)
def test_describe_generation(name, words):
    assert words in gpus.describe_generation(gpus.find_gpu(name))


@pytest.mark.parametrize(
    ("name", "method", "notes"),
    [
        ("H200", "", 0),
        ("H200", "fp8", 0),
        ("RTX 3090", "fp8", 1),
        ("A100 80GB", "w8a8_fp8", 1),
        ("Tesla T4", "awq_marlin", 2),
        ("Tesla V100 32GB", "", 1),
        ("B200", "modelopt_fp4", 0),
        ("H200", "modelopt_fp4", 1),
    ],
)
def test_check_gpu_against_the_quantization(name, method, notes):
    assert len(gpus.check_gpu(gpus.find_gpu(name), method)) == notes

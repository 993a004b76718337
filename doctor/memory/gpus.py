"""GPUs by name: their memory, compute capability, and what their generation can run under SGLang."""

from __future__ import annotations

from typing import NamedTuple

from doctor.errors import DoctorError
from doctor.memory.units import MIB, parse_size

# What CUDA shows as total is below what nvidia-smi shows: 616 MiB on an H200 (measured: 143 771 against
# 139.80 GiB), 496 on an RTX 5090 (31.36 GiB in PyTorch's out-of-memory messages), 350 on an RTX 4090.
DRIVER_RESERVE_MIB = 512


class Gpu(NamedTuple):
    """One kind of GPU: `memory_mib` as nvidia-smi reports it, `usable` bytes as CUDA reports them."""

    name: str
    memory_mib: int
    usable: int
    capability: tuple[int, int]


class Machine(NamedTuple):
    """The machine a plan is for; None where unknown.

    `gpu_free`: bytes free on the fullest GPU before the server starts (None: the GPUs are empty).
    `ram` is the host's total, `ram_available` what MemAvailable says, `memory_limit` a container's limit,
    `shm` the size of /dev/shm; all in bytes.
    """

    gpu: Gpu | None
    gpus: int = 1
    gpu_free: int | None = None
    ram: int | None = None
    ram_available: int | None = None
    memory_limit: int | None = None
    shm: int | None = None


# Name, nvidia-smi's memory.total in MiB, compute capability. Memory: nvidia-smi tables in public bug reports;
# capability: NVIDIA's list of CUDA GPUs.
TABLE: tuple[tuple[str, int, tuple[int, int]], ...] = (
    ("Tesla T4", 15360, (7, 5)),
    ("Tesla V100 16GB", 16384, (7, 0)),
    ("Tesla V100 32GB", 32768, (7, 0)),
    ("Quadro RTX 6000", 24576, (7, 5)),
    ("RTX 2080 Ti", 11264, (7, 5)),
    ("A100 40GB", 40960, (8, 0)),
    ("A100 80GB", 81920, (8, 0)),
    ("A800 80GB", 81920, (8, 0)),
    ("A30", 24576, (8, 0)),
    ("A10", 23028, (8, 6)),
    ("A10G", 23028, (8, 6)),
    ("A16", 15356, (8, 6)),
    ("A40", 46068, (8, 6)),
    ("RTX A4000", 16376, (8, 6)),
    ("RTX A5000", 24564, (8, 6)),
    ("RTX A6000", 49140, (8, 6)),
    ("RTX 3060", 12288, (8, 6)),
    ("RTX 3080", 10240, (8, 6)),
    ("RTX 3090", 24576, (8, 6)),
    ("RTX 3090 Ti", 24564, (8, 6)),
    ("L4", 23034, (8, 9)),
    ("L20", 46068, (8, 9)),
    ("L40", 46068, (8, 9)),
    ("L40S", 46068, (8, 9)),
    ("RTX 4000 Ada", 20475, (8, 9)),
    ("RTX 5000 Ada", 32760, (8, 9)),
    ("RTX 5880 Ada", 46068, (8, 9)),
    ("RTX 6000 Ada", 49140, (8, 9)),
    ("RTX 4060 Ti 16GB", 16380, (8, 9)),
    ("RTX 4070", 12282, (8, 9)),
    ("RTX 4070 Ti Super", 16376, (8, 9)),
    ("RTX 4080", 16376, (8, 9)),
    ("RTX 4080 Super", 16376, (8, 9)),
    ("RTX 4090", 24564, (8, 9)),
    ("RTX 4090 D", 24564, (8, 9)),
    ("H20", 97871, (9, 0)),
    ("H100", 81559, (9, 0)),
    ("H100 NVL", 95830, (9, 0)),
    ("H800", 81559, (9, 0)),
    ("H200", 143771, (9, 0)),
    ("H200 NVL", 143771, (9, 0)),
    ("GH200", 97871, (9, 0)),
    ("B200", 183359, (10, 0)),
    ("GB200", 189471, (10, 0)),
    ("B300", 275040, (10, 3)),
    ("GB300", 284208, (10, 3)),
    ("RTX 5060 Ti 16GB", 16311, (12, 0)),
    ("RTX 5070", 12227, (12, 0)),
    ("RTX 5070 Ti", 16303, (12, 0)),
    ("RTX 5080", 16303, (12, 0)),
    ("RTX 5090", 32607, (12, 0)),
    ("RTX 5090 D", 32607, (12, 0)),
    ("RTX PRO 4000 Blackwell", 24467, (12, 0)),
    ("RTX PRO 5000 Blackwell", 48935, (12, 0)),
    ("RTX PRO 6000 Blackwell", 97887, (12, 0)),
)
NOISE = ("nvidia", "geforce", "tesla", "sxm6", "sxm5", "sxm4", "sxm", "pcie", "hbm3e", "hbm3", "hbm2e", "ac")
NOISE_WORDS = frozenset({*NOISE, "server", "workstation", "edition", "generation", "max", "q", "quadro"})


def make_gpu(name: str, memory_mib: int, capability: tuple[int, int]) -> Gpu:
    """Return a GPU whose usable memory is estimated from what nvidia-smi reports."""
    return Gpu(name, memory_mib, (memory_mib - DRIVER_RESERVE_MIB) * MIB, capability)


def find_gpu(name: str) -> Gpu:
    """Return the GPU with this name, however nvidia-smi or a shop decorates it.

    Raises DoctorError with the nearest names when it is unknown.
    """
    wanted = split_name(name)
    best = max(TABLE, key=lambda row: rank_match(wanted, split_name(row[0])))
    if not wanted or rank_match(wanted, split_name(best[0])) <= 0:
        raise DoctorError(f"unknown GPU: {name[:60]!r}", hint=f"known: {suggest(name)}")
    return make_gpu(*best)


def split_name(name: str) -> frozenset[str]:
    """Return the words of a GPU's name that identify it."""
    text = name[:100].lower().replace("-", " ").replace("_", " ")
    return frozenset(word for word in text.split() if word not in NOISE_WORDS)


def rank_match(wanted: frozenset[str], row: frozenset[str]) -> int:
    """Return how well a row matches: 0 when it lacks the model word, else more for fewer differences."""
    common = wanted & row
    model = {word for word in common if any(char.isdigit() for char in word) and not word.endswith("gb")}
    return 0 if not model else 100 * len(model) + 10 * len(common) - len(wanted ^ row)


def suggest(name: str) -> str:
    """Return a few table names close to `name`."""
    from difflib import get_close_matches

    names = [row[0] for row in TABLE]
    return ", ".join(get_close_matches(name, names, n=4, cutoff=0.3) or names[::8])


def describe_machine(gpu: str, gpus: int = 1, ram: str = "") -> Machine:
    """Return a machine given in words, such as ("RTX 5090", 1, "96GiB"), with nothing else running on it."""
    memory = parse_size(ram) if ram else None
    return Machine(find_gpu(gpu), max(1, gpus), ram=memory, ram_available=memory)


# First capability x 10 of each generation, its name, and what it has beside float16 (NVIDIA's architecture
# papers; attention backends by SGLang's own default, model_override_base.py 0.5.23).
GENERATIONS: tuple[tuple[int, str, str], ...] = (
    (120, "Blackwell (RTX)", "bf16, fp8, fp4; FlashInfer attention"),
    (100, "Blackwell", "bf16, fp8, fp4; TensorRT-LLM attention"),
    (90, "Hopper", "bf16, fp8; fp4 as weights only; FlashAttention 3"),
    (89, "Ada", "bf16, fp8; FlashInfer attention"),
    (80, "Ampere", "bf16; fp8 as weights only; FlashInfer attention"),
    (75, "Turing", "no bf16; FlashInfer attention"),
    (0, "older than Turing", "not supported by SGLang"),
)


def describe_generation(gpu: Gpu) -> str:
    """Return the generation's name, capability and what it supports."""
    level = gpu.capability[0] * 10 + gpu.capability[1]
    _, name, features = next(row for row in GENERATIONS if level >= row[0])
    return f"{name}, sm{level}: {features}"


# Lowest capability x 10 for a --quantization value or a checkpoint's method (get_min_capability, 0.5.23), and
# the one from which it runs natively instead of as weight-only Marlin.
MINIMUM = {
    "gptq": (60, 60),
    "gguf": (60, 60),
    "auto-round": (60, 60),
    "bitsandbytes": (70, 70),
    "moe_wna16": (70, 70),
    "awq": (75, 75),
    "w8a8_int8": (75, 75),
    "awq_marlin": (80, 80),
    "gptq_marlin": (80, 80),
    "blockwise_int8": (80, 80),
    "fp8": (80, 89),
    "mxfp4": (80, 90),
    "modelopt_fp4": (80, 100),
    "nvfp4": (80, 100),
    "w8a8_fp8": (89, 89),
    "modelopt_fp8": (89, 89),
    "w4afp8": (90, 90),
    "mxfp8": (100, 100),
    "nvfp4_online": (100, 100),
}


def check_gpu(gpu: Gpu, method: str) -> list[str]:
    """Return what this GPU's generation cannot run, or runs differently, of a quantization method."""
    level = gpu.capability[0] * 10 + gpu.capability[1]
    notes = []
    if level < 75:
        notes.append(f"{gpu.name} is sm{level}: SGLang needs sm75 or newer")
    elif level < 80:
        notes.append(f"{gpu.name} is sm{level}: bfloat16 models run as float16")
    lowest, native = MINIMUM.get(method, (0, 0))
    if level < lowest:
        notes.append(f"{method} needs sm{lowest}, {gpu.name} is sm{level}: SGLang refuses to load it")
    elif level < native:
        notes.append(f"{method} runs weight-only (Marlin) on sm{level}; native from sm{native} on")
    return notes

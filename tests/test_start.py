"""What a start may cost: nothing heavy is imported before it is needed, and torch and sglang never."""

import subprocess
import sys

import pytest

from tests.helpers import FIXTURES, ROOT

NEVER = ("torch", "sglang", "pynvml", "psutil", "numpy")
HEAVY = (
    *NEVER,
    "rich",
    "regex",
    "asyncio",
    "importlib.metadata",
    "importlib.resources",
    "dataclasses",
    "inspect",
    "logging",
    "typing_extensions",
    "concurrent.futures",
)
PROGRAM = """
import sys
before = set(sys.modules)
from doctor.cli import run
sys.argv = ["doctor", *{arguments!r}]
try:
    run()
except SystemExit:
    pass
print(*sorted(set(sys.modules) - before), file=sys.stderr)
"""


def list_imports(*arguments: str) -> set[str]:
    """Modules that a run imports, beside those the interpreter itself starts with (which `.pth` files may add to)."""
    program = PROGRAM.format(arguments=list(arguments))
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True, cwd=ROOT)
    return set(done.stderr.decode().splitlines()[-1].split())


def find(imported: set[str], unwanted: tuple[str, ...]) -> set[str]:
    return {name for name in imported if any(name == module or name.startswith(f"{module}.") for module in unwanted)}


@pytest.mark.parametrize("arguments", [["--help"], ["explain", "--help"], ["--version"]])
def test_help_imports_nothing_heavy(arguments: list[str]) -> None:
    imported = list_imports(*arguments)
    assert find(imported, HEAVY) == set()
    assert find(imported, ("doctor.diagnosis", "doctor.logs", "doctor.launch", "doctor.memory", "json")) == set()


def test_explain_of_a_file_imports_neither_torch_nor_colour() -> None:
    imported = list_imports("explain", str(FIXTURES / "seed/no_accelerator.log"))
    assert (
        find(
            imported,
            (
                *NEVER,
                "rich",
                "asyncio",
                "importlib.metadata",
                "dataclasses",
                "gzip",
                "subprocess",
                "socket",
                "ssl",
                "urllib.request",
            ),
        )
        == set()
    )


def test_patterns_are_compiled_when_needed() -> None:
    """A healthy log meets no rule that needs the `regex` package more than its own few lines do."""
    assert "doctor.report.as_json" not in list_imports("explain", str(FIXTURES / "seed/no_accelerator.log"))


def test_doctor_is_importable_without_its_heavy_dependencies() -> None:
    program = "import sys; sys.modules.update(dict.fromkeys(['rich', 'psutil', 'pynvml', 'regex', 'torch', 'sglang'])); from doctor.cli import build_parser; build_parser()"
    subprocess.run([sys.executable, "-c", program], check=True, cwd=ROOT)

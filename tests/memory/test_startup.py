import subprocess
import sys

HEAVY = (
    "dataclasses",
    "logging",
    "asyncio",
    "importlib.metadata",
    "importlib.resources",
    "textwrap",
    "difflib",
    "inspect",
)


def test_importing_the_planner_loads_nothing_heavy():
    paths = f"import sys; sys.path[:0] = {[path for path in sys.path if path]!r}"
    code = "import doctor.memory.plan, doctor.memory.picture; print(' '.join(sys.modules))"
    command = [sys.executable, "-I", "-S", "-c", f"{paths}; {code}"]
    loaded = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    assert not set(HEAVY) & set(loaded)

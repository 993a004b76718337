"""Read which SGLANG_* and SGL_* environment variables each version mentions into `doctor/launch/variables.json`.

After `flag_tables.py` has unpacked the wheels: `python tools/variable_table.py --cache build/wheels`. A variable
counts as known from the first to the last version whose serving code (not its tests) has it in a string.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from doctor.launch.flags import known_versions

TABLE = Path(__file__).parent.parent / "doctor" / "launch" / "variables.json"
# Names as string literals, and as fields of `srt/environ.py` (since 0.5.4).
NAME = re.compile(r"""["'\s]((?:SGLANG|SGL)_[A-Z][A-Z0-9_]{2,})(?=["'\s])""")
SKIPPED = {"test", "multimodal_gen", "benchmark", "eval"}


def read_variables(package: Path) -> set[str]:
    """Return the variables that the modules of a package mention."""
    names: set[str] = set()
    for path in package.rglob("*.py"):
        if not SKIPPED & set(path.relative_to(package).parts):
            names.update(NAME.findall(path.read_text(encoding="utf-8", errors="replace")))
    return names


def write_table(cache: Path) -> int:
    """Write the table from the unpacked wheels in `cache`; return how many variables it has."""
    spans: dict[str, list[str]] = {}
    for version in known_versions():
        for name in read_variables(cache / version / "sglang"):
            spans[name] = [spans.get(name, [version])[0], version]
    lines = ",\n".join(f"{json.dumps(name)}: {json.dumps(spans[name])}" for name in sorted(spans))
    TABLE.write_text(f"{{\n{lines}\n}}\n", encoding="utf-8")
    return len(spans)


def run() -> None:
    """Write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cache", type=Path, default=Path("build/wheels"), help="for unpacked wheels")
    print(f"{write_table(parser.parse_args().cache)} variables")


if __name__ == "__main__":
    run()

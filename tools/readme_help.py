"""Write the `--help` texts into README.md between their marks.

Usage: python tools/readme_help.py [--check]
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
README = ROOT / "README.md"

_MARK = re.compile(r"<!-- help: doctor (?P<words>[^>]*?) -->\n.*?<!-- end -->", re.DOTALL)


def main(arguments: list[str]) -> int:
    """Write, or with --check only compare."""
    text = README.read_text("utf-8")
    wanted = _MARK.sub(lambda found: fill(found["words"]), text)
    if "--check" in arguments:
        print("README.md is up to date" if text == wanted else "README.md: stale help; run: make docs")
        return int(text != wanted)
    README.write_text(wanted, "utf-8")
    return 0


def fill(words: str) -> str:
    """Give the marked block of one help text."""
    done = subprocess.run(
        [sys.executable, "-m", "doctor", *words.split()],
        cwd=ROOT, capture_output=True, text=True, check=True, env={**os.environ, "COLUMNS": "100", "NO_COLOR": "1"},
    )  # fmt: skip
    return f"<!-- help: doctor {words} -->\n```text\n{done.stdout.rstrip()}\n```\n<!-- end -->"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

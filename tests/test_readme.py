"""The README says what the program says."""

import subprocess
import sys

from tests.helpers import ROOT


def test_help_in_readme_is_the_programs_own() -> None:
    done = subprocess.run(
        [sys.executable, "tools/readme_help.py", "--check"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout

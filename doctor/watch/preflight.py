"""The one seam to `doctor check`: a child, so that its threads and imports stay out of the watchdog."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence

SECONDS = 60.0
"""The check ends by itself within 30 s."""


def run_preflight(words: Sequence[str]) -> int:
    """Check the launch and print what was found on stderr; 1 when something stands against it, else 0."""
    argv = [sys.executable, "-m", "doctor", "check", "--fail-on", "error", "--", *words]
    try:
        done = subprocess.run(argv, capture_output=True, timeout=SECONDS, check=False, stdin=subprocess.DEVNULL)
    except (OSError, subprocess.TimeoutExpired) as error:
        print(f"doctor: no preflight ({type(error).__name__}); starting without", file=sys.stderr)
        return 0
    if done.returncode not in (0, 1):
        print(f"doctor: no preflight (it ended with {done.returncode}); starting without", file=sys.stderr)
        return 0
    body = done.stdout if done.returncode else b""
    sys.stderr.write((body + done.stderr).decode("utf-8", "replace"))
    return done.returncode

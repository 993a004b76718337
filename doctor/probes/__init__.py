"""One module for each thing that `doctor check` looks at; the runner discovers them, so there is no list to extend."""

from __future__ import annotations

import os


def list_modules() -> list[str]:
    """Return the names of the probes' modules without importing any; a probe is named like its module, with dashes."""
    return [name[:-3] for name in os.listdir(os.path.dirname(__file__)) if name.endswith(".py") and name[0] != "_"]

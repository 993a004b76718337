"""The table of flags against the --help of the real server."""

import re
import subprocess

import pytest

from doctor.launch.flags import load_table

from .real_server import find_python

pytestmark = pytest.mark.e2e
TABLE = load_table("0.5.23")
# Declared with help=argparse.SUPPRESS.
HIDDEN = {"--forward-pass-metrics-ipc-name", "--forward-pass-metrics-worker-id"}


@pytest.fixture(scope="module")
def listed():
    """Options of --help, each with its choices ("" without any); the text in front of the two blanks."""
    words = [str(find_python()), "-m", "sglang.launch_server", "--help"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=300, check=True)
    heads = [line.strip().split("  ")[0] for line in done.stdout.splitlines() if line.startswith("  -")]
    found = {}
    for head in heads:
        choices = re.search(r"\{(.*?)\}", head)
        names = re.findall(r"(?<![\w-])--?[A-Za-z][\w-]*", re.sub(r"\{.*?\}", "", head))
        found |= dict.fromkeys(names, choices[1] if choices else "")
    return found


def test_table_has_the_flags_of_help_and_no_others(listed):
    assert TABLE.exact
    assert set(TABLE.options) == set(listed) | HIDDEN


def test_table_has_the_choices_of_help(listed):
    """In any order: one of them comes from a set."""
    table = {name: {str(choice) for choice in flag.choices} for name, flag in TABLE.options.items() if name in listed}
    shown = {name: set(filter(None, text.split(","))) for name, text in listed.items()}
    assert table == shown

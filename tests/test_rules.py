"""Every rule against its own examples, and the generated files against the rules."""

import subprocess
import sys

import pytest

from doctor.diagnosis.lint import check_examples, lint_rules, load_rules
from doctor.diagnosis.load import PACK, PAGES, load_pack, load_pages, pack_pages, pack_rules
from tests.helpers import ROOT, shipped_index

LOADED, PROBLEMS = load_rules(ROOT / "rules")


def test_rules_all_readable() -> None:
    assert PROBLEMS == []


@pytest.mark.parametrize("loaded", LOADED, ids=lambda loaded: loaded[0].id)
def test_rule_examples_say_what_they_must(loaded) -> None:
    assert list(check_examples(*loaded, shipped_index())) == []


def test_rules_pass_the_linter() -> None:
    assert lint_rules(LOADED) == []


def test_pack_is_generated_from_the_rules() -> None:
    assert PACK.read_text("utf-8") == pack_rules(rule for rule, _ in LOADED), "run: make rules"
    assert PAGES.read_text("utf-8") == pack_pages({rule.id: page for rule, page in LOADED}), "run: make rules"


def test_pack_reads_back_as_written() -> None:
    assert sorted(load_pack()) == sorted(rule for rule, _ in LOADED)
    assert load_pages() == {rule.id: page for rule, page in LOADED}


def test_docs_are_generated_from_the_rules() -> None:
    done = subprocess.run(
        [sys.executable, "tools/rule_pages.py", "--check"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout


def test_rules_are_many_enough() -> None:
    roles = [rule.role for rule, _ in LOADED]
    assert roles.count("root") >= 130
    assert roles.count("benign") >= 30

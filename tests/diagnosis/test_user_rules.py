"""Rules of the user's own: sound ones are used, broken ones are named with the reason and never fatal."""

import subprocess
import sys
from pathlib import Path

import pytest

from doctor.diagnosis import match
from doctor.diagnosis.lint import check_user_rules
from tests.helpers import ROOT

RULE = """\
id = "ZZZ001"
name = "my-own-rule"
title = "The engine burns"
cause = "Too hot."
why = "It says so."
{rule}
[[match]]
keywords = ["engine burns brightly"]
{match}
[[fix]]
title = "Cool it"
safety = "manual"
{fix}
[page]
means = "m"
happens = "h"
look_alikes = "l"
wrong_when = "w"
references = ["r"]
[[example]]
name = "fires"
fires = true
log = "engine burns brightly"
{example}
[[example]]
name = "near miss"
fires = false
log = "engine burns"
"""


def make_rule(**parts: str) -> str:
    return RULE.format(**{"rule": "", "match": "", "fix": "", "example": "", **parts})


BROKEN = {
    "no rule at all": ("", "id is missing"),
    "no TOML": ("[[[", "x.toml: "),
    "no UTF-8": (b"id = '\xe9'", "codec can't decode"),
    "nested without end": ("a = " + "[" * 5000, "x.toml: "),
    "range of versions": (make_rule(rule='applies = "banana"'), "not a version range: banana"),
    "code in a condition": (make_rule(rule="when = \"__import__('os')\""), "not a function of rules"),
    "condition that hangs": (make_rule(rule="when = \"matches(log.last_line, '(a+)+$')\""), "nested quantifiers"),
    "pattern": (make_rule(match="pattern = '('"), "missing )"),
    "condition without keywords": (make_rule(match="[[condition]]\nkind = 'near'"), "has no keywords"),
    "condition without keywords beside a count": (
        make_rule(match="[[condition]]\nkind = 'count'\n[[condition]]\nkind = 'none'\npattern = 'x'"),
        "has no keywords",
    ),
    "count of something else": (
        make_rule(match="[[condition]]\nkind = 'count'\nkeywords = ['rain falls']"),
        "a count is of the match itself",
    ),
    "count of more than is kept": (
        make_rule(match="[[condition]]\nkind = 'count'\nat_least = 13\nwithin_lines = 90"),
        "a count within bounds goes up to 12",
    ),
    "pattern that hangs": (make_rule(match="pattern = '(a+)+b'"), "nested quantifiers"),
    "frame": (make_rule(match="frame = '('"), "missing )"),
    "phase": (make_rule(match="phase = 'banana'"), "unknown phase"),
    "flag that no version has": (make_rule(fix='edit = [{kind = "flag", name = "--nope", to = "1"}]'), "--nope"),
    "edit that is no table": (make_rule(fix="edit = [1]"), "write [[edit]]"),
    "unknown field": (make_rule(match="keyword = 'x'"), "unknown field keyword"),
    "wrong type": (make_rule(rule="explains = [1]"), "explains must be a list of texts"),
    "id in use": (make_rule().replace("ZZZ001", "GPU001"), "used twice"),
    "command of an example": (make_rule(example='command = "\'"'), "never closed"),
    "example that does not fire": (make_rule(rule="when = 'args.tp_size == 8'"), "does not fire"),
}


@pytest.mark.parametrize(("text", "reason"), BROKEN.values(), ids=BROKEN)
def test_broken_rule_is_named_with_its_reason(text: str | bytes, reason: str, tmp_path: Path) -> None:
    (tmp_path / "x.toml").write_bytes(text if isinstance(text, bytes) else text.encode())
    good, problems = check_user_rules(tmp_path)
    assert good == []
    assert any(reason in problem for problem in problems), problems


def test_sound_rule_is_loaded_beside_a_broken_one(tmp_path: Path) -> None:
    (tmp_path / "good.toml").write_text(make_rule(), "utf-8")
    (tmp_path / "bad.toml").write_text("[[[", "utf-8")
    good, problems = check_user_rules(tmp_path)
    assert [rule.id for rule in good] == ["ZZZ001"]
    assert len(problems) == 1


def test_program_uses_the_sound_one_and_names_the_broken_one(tmp_path: Path) -> None:
    (tmp_path / "good.toml").write_text(make_rule(), "utf-8")
    (tmp_path / "bad.toml").write_text("[[[", "utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "doctor", "explain", "-", "--rules", str(tmp_path)],
        input=b"engine burns brightly\n",
        capture_output=True,
        check=False,
        cwd=ROOT,
    )
    assert done.returncode == 1
    assert done.stdout.startswith(b"FAILURE: The engine burns\nZZZ001")
    skipped, summary = done.stderr.decode().splitlines()
    assert skipped.startswith(f"doctor: skipped a rule: {tmp_path}/bad.toml: ")
    assert summary == "doctor: failure: ZZZ001 my-own-rule (confirmed)"


def test_pattern_that_keeps_running_out_of_time_is_given_up(monkeypatch) -> None:
    monkeypatch.setattr(match, "PATTERN_SECONDS", 0.01)
    monkeypatch.setattr(match, "_timeouts", {})
    slow = r"^(?:(?:a|aa)+)+b$"
    for _ in range(match._MOST_TIMEOUTS + 2):
        assert match.search(slow, "a" * 3000 + "!") is None
    assert match._timeouts == {slow: match._MOST_TIMEOUTS}

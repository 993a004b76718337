"""`doctor rule` as a program: pages of rules and of the watchdog's findings, and what it says of other names."""

import json
import subprocess
import sys

import pytest

from doctor.commands.rule import suggest
from doctor.diagnosis.load import load_pack
from doctor.watch.findings import FINDINGS

CODES = [rule.id for rule in load_pack()]
NAMES = [rule.name for rule in load_pack()]


def rule(*arguments):
    command = [sys.executable, "-m", "doctor", "rule", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.parametrize("name", ["GPU001", "gpu001", "no-accelerator"])
def test_rule_by_code_and_name(name):
    assert rule(name).stdout.startswith("# GPU001 no-accelerator\n")


@pytest.mark.parametrize("finding", FINDINGS.values(), ids=lambda finding: finding.rule)
def test_every_finding_of_the_watchdog_has_a_page(finding):
    done = rule(finding.rule)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith(f"# {finding.rule} {finding.name}\n")
    assert finding.why in done.stdout
    assert finding.fix[0] in done.stdout
    assert "{" not in done.stdout


def test_finding_by_name_and_as_json():
    document = json.loads(rule("process-stopped", "--format", "json").stdout)
    assert (document["id"], document["family"], document["role"]) == ("WATCH001", "watch", "root")


def test_list_holds_rules_and_findings():
    text = rule("--list").stdout
    assert f"\n{len(CODES)} rules, " in text
    assert all(finding.rule in text for finding in FINDINGS.values())


def test_list_as_json_holds_rules_and_findings():
    rows = json.loads(rule("--list", "--format", "json").stdout)
    assert [row["id"] for row in rows] == [*sorted(CODES), *(finding.rule for finding in FINDINGS.values())]
    assert len({tuple(row) for row in rows}) == 1


@pytest.mark.parametrize("name", ["driver", "gpu-processes", "gpu_processes"])
def test_probe_name_leads_to_the_check(name):
    done = rule(name)
    assert done.returncode == 2
    command = f"doctor check --only {name.replace('_', '-')}"
    assert done.stderr == f"doctor: no rule {name!r}; {name} is a probe of doctor check: {command}\n"


@pytest.mark.parametrize(
    ("wanted", "hint"),
    [
        ("gpu999", "GPU goes from GPU001 to "),
        ("watch010", "WATCH goes from WATCH001 to WATCH009: doctor rule --list"),
        ("xyz001", "list them all: doctor rule --list"),
        ("no-acelerator", "did you mean no-accelerator?"),
        ("zzzzzz", "list them all"),
        ("port-clash", "did you mean port-clash-zombie?"),
        ("q", "list them all"),
        ("((((", "list them all"),
    ],
)
def test_unknown_name_gets_related_ones_only(wanted, hint):
    codes = [*CODES, *(finding.rule for finding in FINDINGS.values())]
    names = [*NAMES, *(finding.name for finding in FINDINGS.values())]
    assert suggest(wanted, codes, names).startswith(hint)


def test_endless_name_is_cut():
    done = rule("x" * 100_000)
    assert done.returncode == 2
    assert len(done.stderr) < 300

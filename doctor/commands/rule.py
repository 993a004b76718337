"""`doctor rule`: the page of a rule or of a watchdog's finding, their list, and the linter for a user's own."""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from doctor.diagnosis.load import load_pack, load_pages
from doctor.diagnosis.rule import Page, Rule
from doctor.errors import DoctorError
from doctor.watch.findings import FINDINGS, Finding


def show_rule(options: argparse.Namespace) -> int:
    """Run the subcommand; 1 when --lint finds something."""
    if options.lint:
        return _lint(Path(options.lint))
    rules, pages = _load(options.rules)
    if options.list or not options.id:
        _write(_list_json(rules) if options.format == "json" else _list_text(rules))
        return 0
    found = find(rules, options.id)
    from doctor.report.pages import render_finding, render_page

    if isinstance(found, Finding):
        lines, document = render_finding(found), _describe_finding(found)
    else:
        lines, document = render_page(found, pages[found.id]), _as_document(found, pages[found.id])
    _write(iter([json.dumps(document, indent=1)]) if options.format == "json" else lines)
    return 0


def find(rules: Sequence[Rule], name: str) -> Rule | Finding:
    """Find a rule or a watchdog's finding by code or name, whatever the case; raises DoctorError with a way on."""
    wanted = name.lower()
    for rule in rules:
        if wanted in (rule.id.lower(), rule.name):
            return rule
    for finding in FINDINGS.values():
        if wanted in (finding.rule.lower(), finding.name):
            return finding
    codes = [*(rule.id for rule in rules), *(finding.rule for finding in FINDINGS.values())]
    names = [*(rule.name for rule in rules), *(finding.name for finding in FINDINGS.values())]
    raise DoctorError(f"no rule {name[:80]!r}", suggest(wanted, codes, names))


def suggest(wanted: str, codes: Sequence[str], names: Sequence[str]) -> str:
    """Return what to type instead: the probe of that name, codes of the same family, or names that are alike."""
    from doctor.probes import list_modules

    if wanted.replace("-", "_") in list_modules():
        return f"{wanted} is a probe of doctor check: doctor check --only {wanted.replace('_', '-')}"
    code = re.fullmatch(r"([a-z]{2,10})-?\d{1,9}", wanted)
    family = sorted(text for text in codes if code and re.fullmatch(rf"{code[1]}\d+", text.lower()))
    if family:
        return f"{code[1].upper() if code else ''} goes from {family[0]} to {family[-1]}: doctor rule --list"
    import difflib

    holding = [text for text in names if wanted in text][:3] if len(wanted) > 2 and not code else []
    near = holding or ([] if code else difflib.get_close_matches(wanted[:80], names, 3))
    return f"did you mean {' or '.join(near)}?" if near else "list them all: doctor rule --list"


def _load(folders: Sequence[str]) -> tuple[list[Rule], Mapping[str, Page]]:
    rules, pages = list(load_pack()), load_pages()
    for folder in folders:
        from doctor.diagnosis.lint import load_rules

        loaded, problems = load_rules(Path(folder))
        for problem in problems:
            print(f"doctor: skipped a rule: {problem}", file=sys.stderr)
        rules += [rule for rule, _ in loaded]
        pages.update({rule.id: page for rule, page in loaded})
    return rules, pages


def _write(lines: Iterator[str]) -> None:
    sys.stdout.writelines(f"{line}\n" for line in lines)


def _list_text(rules: Sequence[Rule]) -> Iterator[str]:
    families = sorted({rule.family for rule in rules})
    width = max((len(rule.name) for rule in rules), default=0)
    for family in families:
        yield f"{family}:"
        for rule in sorted(rules, key=lambda rule: rule.id):
            if rule.family == family:
                yield f"  {rule.id:<8} {rule.name:<{width}}  {rule.role}, {rule.severity}"
        yield ""
    yield "watch (found by doctor run):"
    for finding in FINDINGS.values():
        yield f"  {finding.rule:<8} {finding.name:<{width}}  {_role_of(finding)}, error"
    yield ""
    causes = sum(rule.role == "root" for rule in rules)
    yield f"{len(rules)} rules, {causes} of them causes; read one with: doctor rule ID"


def _list_json(rules: Sequence[Rule]) -> Iterator[str]:
    fields = ("id", "name", "family", "title", "role", "severity", "applies", "recoverable")
    rows = [{field: getattr(rule, field) for field in fields} for rule in sorted(rules, key=lambda rule: rule.id)]
    found = [_describe_finding(finding) for finding in FINDINGS.values()]
    rows += [{field: document.get(field, "") for field in fields} for document in found]
    yield json.dumps(rows, indent=1)


def _role_of(finding: Finding) -> str:
    """Say what the finding is beside a cause that the log names."""
    return "root" if finding.wins else "root or context"


def _describe_finding(finding: Finding) -> dict[str, object]:
    title, safety, why = finding.fix
    return {
        "id": finding.rule,
        "name": finding.name,
        "family": "watch",
        "title": finding.title,
        "role": _role_of(finding),
        "severity": "error",
        "confidence": "confirmed",
        "recoverable": finding.recoverable,
        "cause": finding.cause,
        "why": finding.why,
        "fixes": [{"title": title, "safety": safety, "why": why}],
    }


def _as_document(rule: Rule, page: Page) -> dict[str, object]:
    return {
        **{
            field: getattr(rule, field)
            for field in (
                "id",
                "name",
                "family",
                "title",
                "role",
                "severity",
                "confidence",
                "recoverable",
                "applies",
            )
        },
        "cause": rule.cause,
        "why": rule.why,
        **{field: getattr(page, field) for field in ("means", "happens", "look_alikes", "wrong_when")},
        "fixes": [
            {"title": fix.title, "safety": fix.safety, "why": fix.why, "verify": fix.verify} for fix in rule.fixes
        ],
        "references": list(page.references),
        "examples": [example._asdict() for example in page.examples],
    }


def _lint(folder: Path) -> int:
    from doctor.diagnosis.lint import lint_rules, load_rules

    loaded, problems = load_rules(folder)
    problems += lint_rules(loaded, [rule for rule in load_pack() if rule.id not in {mine.id for mine, _ in loaded}])
    for problem in problems:
        print(problem)
    print(f"{len(loaded)} rules read, {len(problems)} problems", file=sys.stderr)
    return int(bool(problems))

"""`doctor rule`: the page of a rule, the list of rules, and the linter for a user's own."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from doctor.diagnosis.load import load_pack, load_pages
from doctor.diagnosis.rule import Page, Rule
from doctor.errors import DoctorError


def show_rule(options: argparse.Namespace) -> int:
    """Run the subcommand; 1 when --lint finds something."""
    if options.lint:
        return _lint(Path(options.lint))
    rules, pages = _load(options.rules)
    if options.list or not options.id:
        _write(_list_json(rules) if options.format == "json" else _list_text(rules))
        return 0
    rule = find_rule(rules, options.id)
    if options.format == "json":
        sys.stdout.write(json.dumps(_as_document(rule, pages[rule.id]), indent=1) + "\n")
        return 0
    from doctor.report.pages import render_page

    _write(render_page(rule, pages[rule.id]))
    return 0


def find_rule(rules: Sequence[Rule], name: str) -> Rule:
    """Find a rule by code or name, whatever the case; raises DoctorError with the nearest names."""
    wanted = name.lower()
    for rule in rules:
        if wanted in (rule.id.lower(), rule.name):
            return rule
    import difflib

    names = [text for rule in rules for text in (rule.id.lower(), rule.name)]
    near = difflib.get_close_matches(wanted, names, 3, 0.5)
    hint = f"did you mean {' or '.join(near)}?" if near else "list them all: doctor rule --list"
    raise DoctorError(f"no rule {name!r}", hint)


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
    causes = sum(rule.role == "root" for rule in rules)
    yield f"{len(rules)} rules, {causes} of them causes; read one with: doctor rule ID"


def _list_json(rules: Sequence[Rule]) -> Iterator[str]:
    fields = ("id", "name", "family", "title", "role", "severity", "applies", "recoverable")
    yield json.dumps(
        [{field: getattr(rule, field) for field in fields} for rule in sorted(rules, key=lambda rule: rule.id)],
        indent=1,
    )


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

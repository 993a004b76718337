"""Check rules before they are trusted: their form, their patterns, and that every example says what it must."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from doctor.diagnosis.explain import Question, diagnose
from doctor.diagnosis.expressions import ExpressionError, check_expression, list_holes
from doctor.diagnosis.load import find_rule_files, load_pack, load_rule_file
from doctor.diagnosis.match import Index
from doctor.diagnosis.model import Report
from doctor.diagnosis.observe import Observer
from doctor.diagnosis.rule import EditTemplate, Example, FixTemplate, Page, Rule
from doctor.diagnosis.versions import is_within
from doctor.errors import DoctorError
from doctor.launch.flags import Exact, FlagTable, known_versions, load_table
from doctor.logs.events.phase import PHASES
from doctor.logs.lines import read_blocks

Loaded = tuple[Rule, Page]

_ID = re.compile(r"[A-Z]{2,5}\d{3}")
_NAME = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)+")
_NESTED = re.compile(r"\((?:[^()\\]|\\.)*[+*](?:[^()\\]|\\.)*\)(?:[+*]|\{\d+,\})")
_SHORTEST_KEYWORD = 5
"""Characters; a shorter keyword occurs in everything and makes the search slow."""

_MOST_COUNTED = 12
"""Hits of a pattern of which `observe` keeps the places, at the beginning and at the end."""


def load_rules(folder: Path) -> tuple[list[Loaded], list[str]]:
    """Read every rule file under a folder: (those that can be read, problems)."""
    loaded, problems = [], []
    for path in find_rule_files(folder):
        try:
            loaded.append(load_rule_file(path))
        except DoctorError as error:
            problems.append(error.message)
    return loaded, problems


def lint_rules(loaded: Sequence[Loaded], beside: Sequence[Rule] = ()) -> list[str]:
    """List the problems of rules; `beside` are the rules they will run together with."""
    problems = [*_find_duplicates([*beside, *(rule for rule, _ in loaded)])]
    tables = [load_table(version) for version in known_versions()]
    sound = []
    for rule, page in loaded:
        found = [f"{rule.id}: {problem}" for problem in (*_check_form(rule, page), *_check_fixes(rule, tables))]
        problems += found
        if not found:
            sound.append((rule, page))
    index = Index([*beside, *(rule for rule, _ in sound)])
    for rule, page in sound:
        problems += [f"{rule.id}: {problem}" for problem in check_examples(rule, page, index)]
    return problems


def check_user_rules(folder: Path) -> tuple[list[Rule], list[str]]:
    """Load a user's rules beside the built-in ones: (the sound ones, problems of the others)."""
    loaded, problems = load_rules(folder)
    built_in = load_pack()
    good = []
    for item in loaded:
        found = lint_rules([item], built_in)
        problems += found
        if not found:
            good.append(item[0])
    return good, problems


def _find_duplicates(rules: Iterable[Rule]) -> Iterator[str]:
    seen: set[str] = set()
    for rule in rules:
        for key in (rule.id, rule.name):
            if key in seen:
                yield f"{rule.id}: {key} is used twice"
            seen.add(key)


def _check_form(rule: Rule, page: Page) -> Iterator[str]:
    if not _ID.fullmatch(rule.id):
        yield "the id must be capitals and three digits, like MEM002"
    if not _NAME.fullmatch(rule.name):
        yield f"the name must be kebab-case words for the problem: {rule.name!r}"
    if not rule.matches:
        yield "no [[match]]"
    if not page.references:
        yield "no references: a rule stands on a recording, a thread or a line of source"
    if not any(example.fires for example in page.examples):
        yield "no example that fires"
    if not any(not example.fires for example in page.examples):
        yield "no near miss: give an example that looks alike and must not fire"
    if rule.role == "root" and not rule.fixes:
        yield "a root needs at least one [[fix]]"
    yield from _check_patterns(rule)
    yield from _check_counts(rule)
    yield from _check_expressions(rule)


def _check_patterns(rule: Rule) -> Iterator[str]:
    import regex

    patterns = [
        (match.event != "facts", match.keywords, pattern, match.phase)
        for match in rule.matches
        for pattern in (match.pattern, match.frame)
    ]
    patterns += [(item.kind != "count", item.keywords, item.pattern, ()) for item in rule.conditions]
    for searched, keywords, pattern, phases in patterns:
        if searched and not keywords:
            yield "a match or condition has no keywords"
        for keyword in keywords:
            if len(keyword) < _SHORTEST_KEYWORD:
                yield f"keyword {keyword!r} is shorter than {_SHORTEST_KEYWORD} characters"
        for phase in phases:
            if phase not in (*PHASES, "unknown"):
                yield f"unknown phase {phase!r}"
        if pattern.startswith(".*"):
            yield f"pattern starts with .*: {pattern}"
        if _NESTED.search(pattern):
            yield f"pattern has nested quantifiers: {pattern}"
        try:
            regex.compile(pattern)
        except regex.error as error:
            yield f"pattern {pattern!r}: {error}"


def _check_counts(rule: Rule) -> Iterator[str]:
    for item in rule.conditions:
        if item.kind != "count":
            continue
        if item.pattern or (item.keywords and item.keywords not in [match.keywords for match in rule.matches]):
            yield "a count is of the match itself, so its condition has no other keywords and no pattern"
        if (item.within_lines or item.within_seconds or item.same) and item.at_least > _MOST_COUNTED:
            yield f"a count within bounds goes up to {_MOST_COUNTED}: only so many hits are kept with their places"


def _check_expressions(rule: Rule) -> Iterator[str]:
    conditions = [rule.when, *(variant.when for variant in rule.variants), *(fix.when for fix in rule.fixes)]
    conditions += [edit.when for fix in rule.fixes for edit in fix.edits]
    texts = [rule.title, rule.cause, rule.why, *rule.missing]
    texts += [text for variant in rule.variants for text in (variant.title, variant.cause, variant.why)]
    texts += [text for fix in rule.fixes for text in (fix.title, fix.why, fix.verify)]
    texts += [text for fix in rule.fixes for edit in fix.edits for text in (*edit.names, edit.to or "")]
    for text in [*filter(None, conditions), *(hole for filled in texts for hole in list_holes(filled))]:
        if _NESTED.search(text) and "matches(" in text:
            yield f"expression has nested quantifiers: {text}"
        try:
            check_expression(text)
        except ExpressionError as error:
            yield f"expression: {error}"


def _check_fixes(rule: Rule, tables: Sequence[FlagTable]) -> Iterator[str]:
    try:
        within = [table for table in tables if is_within(table.version, rule.applies)]
    except ValueError as error:
        yield f"applies: {error}"
        return
    for fix in rule.fixes:
        yield from _check_fix(fix, within)


def _check_fix(fix: FixTemplate, tables: Sequence[FlagTable]) -> Iterator[str]:
    if not fix.edits and fix.safety != "manual":
        yield f"fix {fix.title!r} has no edit, so its safety is manual"
    for edit in fix.edits:
        if edit.kind == "flag":
            yield from _check_flag(edit, tables)


def _check_flag(edit: EditTemplate, tables: Sequence[FlagTable]) -> Iterator[str]:
    for name in edit.names:
        if "{" not in name and not any(isinstance(table.resolve(name), Exact) for table in tables):
            yield f"no SGLang version that the rule applies to has the flag {name}"


def check_examples(rule: Rule, page: Page, index: Index) -> Iterator[str]:
    """Run every example through all rules of the index."""
    fired: set[str] = set()
    for example in page.examples:
        try:
            report = run_example(example, index)
        except DoctorError as error:
            yield f"example {example.name!r}: {error.message}"
            continue
        found = next((item for item in report.diagnoses if item.rule == rule.id), None)
        if example.fires and found is None:
            yield f"example {example.name!r} does not fire; the report says {_say(report)}"
        elif example.fires and rule.role == "root" and (report.root is None or report.root.rule != rule.id):
            yield f"example {example.name!r}: another rule is the root: {_say(report)}"
        elif not example.fires and found is not None:
            yield f"near miss {example.name!r} fires"
        if found:
            fired.add(example.name)


def run_example(example: Example, index: Index) -> Report:
    """Diagnose one example as if it were a file."""
    observer = Observer(index)
    observer.open_file("example.log")
    data = example.log.encode()
    for block in read_blocks([data]):
        observer.feed(block)
    observer.close_file(len(data))
    return diagnose(index.rules, observer.finish(), Question(example.command or None, example.facts))


def _say(report: Report) -> str:
    return f"{report.verdict}, " + (", ".join(f"{item.role} {item.rule}" for item in report.diagnoses) or "nothing")

"""The page of a rule: one source for `doctor rule ID` and for docs/rules/; and that of a watchdog's finding."""

from __future__ import annotations

from collections.abc import Iterator

from doctor.diagnosis.rule import FixTemplate, Page, Rule
from doctor.watch.findings import Finding

SAFETY = {
    "safe": "safe: it cannot make things worse",
    "review": "review: look first",
    "manual": "manual: outside the launch command",
}


def render_page(rule: Rule, page: Page) -> Iterator[str]:
    """Write the page as Markdown lines, which also read well in a terminal."""
    yield f"# {rule.id} {rule.name}"
    yield ""
    yield rule.title
    yield ""
    applies = f"SGLang {rule.applies}" if rule.applies else "all SGLang versions"
    kind = f"Family {rule.family}, {rule.role}, {rule.severity}, {rule.confidence}, {applies}"
    yield f"{kind}; recoverable: {rule.recoverable}."
    yield ""
    for title, text in _sections(rule, page):
        yield f"## {title}"
        yield ""
        yield text
        yield ""
    if rule.fixes:
        yield "## Fix"
        yield ""
        for number, fix in enumerate(rule.fixes, 1):
            yield from _list_fix(number, fix)
        yield ""
    yield "## Example"
    yield ""
    example = next(example for example in page.examples if example.fires)
    yield "```text"
    yield from example.log.strip("\n").splitlines()
    yield "```"
    yield ""
    yield "## References"
    yield ""
    yield from (f"- {reference}" for reference in page.references)


def render_finding(finding: Finding) -> Iterator[str]:
    """Write the page of what only `doctor run` can see; its cause has a blank where a report says what was seen."""
    title, safety, why = finding.fix
    yield f"# {finding.rule} {finding.name}"
    yield ""
    yield finding.title
    yield ""
    yield f"Found by doctor run, error, confirmed, all SGLang versions; recoverable: {finding.recoverable}."
    yield ""
    rank = (
        "It is the cause even where the log names another one, which becomes an alternative."
        if finding.wins
        else "A cause that the log names comes first; then this is its context."
    )
    for heading, text in (
        ("What it means", finding.cause.format(words="(What was seen)")),
        ("How the doctor knows", finding.why),
        ("Beside other causes", rank),
        ("Fix", f"1. {title} ({SAFETY[safety]}). {why}"),
    ):
        yield f"## {heading}"
        yield ""
        yield text
        yield ""


def _sections(rule: Rule, page: Page) -> Iterator[tuple[str, str]]:
    yield "What it means", page.means
    yield "Why it happens", page.happens
    yield "How the doctor knows", rule.why
    yield "How to tell it from its look-alikes", page.look_alikes
    yield "When this rule is wrong", page.wrong_when


def _list_fix(number: int, fix: FixTemplate) -> Iterator[str]:
    yield f"{number}. {fix.title} ({SAFETY[fix.safety]}). {fix.why}".rstrip()
    for edit in fix.edits:
        names = " or ".join(f"`{name}`" for name in edit.names)
        to = "" if edit.to is None or edit.kind in ("package", "shell") else f" to `{edit.to}`" if edit.to else ""
        verb = {
            "flag": "set" if edit.to is not None else "remove",
            "env": "set" if edit.to is not None else "unset",
            "package": "install",
            "shell": "run",
        }[edit.kind]
        yield f"   - {verb} {names}{to}"
    if fix.verify:
        yield f"   - check: {fix.verify}"

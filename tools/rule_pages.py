"""Write docs/rules/ from the rules: one page per rule and an index by family.

Usage: python tools/rule_pages.py [--check]
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from doctor.diagnosis.load import load_pack, load_pages
from doctor.diagnosis.rule import Rule
from doctor.report.pages import render_page

FOLDER = ROOT / "docs" / "rules"


def main(arguments: list[str]) -> int:
    """Write the pages, or with --check only compare."""
    wanted = build_pages()
    present = {path.name: path.read_text("utf-8") for path in FOLDER.glob("*.md")}
    if "--check" in arguments:
        stale = sorted(name for name in wanted.keys() | present.keys() if wanted.get(name) != present.get(name))
        print(f"stale: {', '.join(stale)}; run: make docs" if stale else "docs/rules is up to date")
        return int(bool(stale))
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name in present.keys() - wanted.keys():
        (FOLDER / name).unlink()
    for name, text in wanted.items():
        (FOLDER / name).write_text(text, "utf-8")
    print(f"{len(wanted) - 1} pages written")
    return 0


def build_pages() -> Mapping[str, str]:
    """Give every file's name and text."""
    rules, pages = load_pack(), load_pages()
    texts = {f"{rule.id}.md": "\n".join(render_page(rule, pages[rule.id])) + "\n" for rule in rules}
    return {**texts, "README.md": "\n".join(list_index(rules)) + "\n"}


def list_index(rules: tuple[Rule, ...]) -> Iterator[str]:
    """List the rules by family."""
    yield "# Rules"
    yield ""
    yield "Generated from `rules/`; the same text as `doctor rule ID` prints."
    yield "Write your own: [writing-rules](../writing-rules.md)."
    for family in sorted({rule.family for rule in rules}):
        yield ""
        yield f"## {family}"
        yield ""
        yield "| rule | problem | kind |"
        yield "|---|---|---|"
        for rule in sorted(rules, key=lambda rule: rule.id):
            if rule.family == family:
                yield f"| [{rule.id}]({rule.id}.md) | {rule.name} | {rule.role}, {rule.severity} |"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

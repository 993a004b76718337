"""Look for the literals that rules rely on in the source of SGLang's wheels, and write docs/coverage.md.

Usage: python tools/drift.py [--cache DIR] [VERSION...]
Downloads each wheel once, reads every string of its source with `ast` (nothing is imported), and reports: in which
versions each rule's literal occurs, literals that vanished, `applies` ranges that do not fit, and which share of
SGLang's own raise, assert and error-log sites some rule covers, by folder, worst first.
"""

from __future__ import annotations

import argparse
import ast
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(Path(__file__).resolve().parent)]

from flag_tables import unpack_wheel

from doctor.diagnosis.load import load_pack
from doctor.diagnosis.rule import Match, Rule
from doctor.diagnosis.versions import is_within

VERSIONS = (
    "0.4.6.post5",
    "0.4.10.post2",
    "0.5.2",
    "0.5.6",
    "0.5.10",
    "0.5.12.post1",
    "0.5.15.post1",
    "0.5.19",
    "0.5.23",
)
HOLE = "\0"
"""Stands for an f-string's or a format's hole."""

_LEVELS = ("error", "exception", "critical")
_SHORTEST = 12
"""Characters of literal text that make a site a message at all."""


class Site(NamedTuple):
    """A place where SGLang tells a person something is wrong: raise, assert or an error log."""

    folder: str
    place: str
    text: str


def main() -> int:
    """Read the wheels, compare, write the report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cache", type=Path, default=Path.home() / ".cache" / "sglang-doctor" / "wheels")
    parser.add_argument("versions", nargs="*", default=list(VERSIONS))
    options = parser.parse_args()
    texts: dict[str, str] = {}
    sites: list[Site] = []
    for version in options.versions:
        print(f"reading {version}", file=sys.stderr)
        texts[version], sites = read_version(version, options.cache)
    report = "\n".join(write_report(load_pack(), texts, sites)) + "\n"
    (ROOT / "docs" / "coverage.md").write_text(report, "utf-8")
    print("wrote docs/coverage.md")
    return 0


def read_version(version: str, cache: Path) -> tuple[str, list[Site]]:
    """Give all literal text of a version as one string, and its sites; kept in the cache."""
    kept = cache / f"{version}.literals.json"
    if not kept.exists():
        package = unpack_wheel(version, cache) / "sglang"
        literals: list[str] = []
        found: list[Site] = []
        for path in sorted(package.rglob("*.py")):
            name = path.relative_to(package).as_posix()
            if not name.startswith(("test/", "multimodal_gen/", "benchmark/", "bench_")):
                read_file(path, name, literals, found)
        kept.write_text(json.dumps([literals, found]))
    literals, rows = json.loads(kept.read_text())
    return "\n".join(literals), [Site(*row) for row in rows]


def read_file(path: Path, name: str, literals: list[str], sites: list[Site]) -> None:
    """Collect a file's literals and sites."""
    try:
        tree = ast.parse(path.read_text("utf-8", "replace"))
    except SyntaxError:
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant | ast.JoinedStr) and (text := flatten(node)):
            literals.append(text)
        message = find_message(node)
        if message is not None and len((text := flatten(message)).replace(HOLE, "")) >= _SHORTEST:
            folder = "/".join(name.split("/")[:2]) if name.startswith("srt/") else name.split("/", maxsplit=1)[0]
            sites.append(Site(folder.removesuffix(".py"), f"{name}:{node.lineno}", text))  # type: ignore[attr-defined]


def find_message(node: ast.AST) -> ast.expr | None:
    """Give the message of a raise, an assert or an error log."""
    if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call) and node.exc.args:
        return node.exc.args[0]
    if isinstance(node, ast.Assert):
        return node.msg
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _LEVELS and node.args:
        return node.args[0]
    return None


def flatten(node: ast.expr) -> str:
    """Give a string's literal text with holes; "" for anything else."""
    if isinstance(node, ast.Constant):
        return node.value.replace("%s", HOLE).replace("%d", HOLE) if isinstance(node.value, str) else ""
    if isinstance(node, ast.JoinedStr):
        return "".join(flatten(part) if isinstance(part, ast.Constant) else HOLE for part in node.values)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Mod):
        return flatten(node.left) + (flatten(node.right) if isinstance(node.op, ast.Add) else "")
    return ""


def write_report(rules: Sequence[Rule], texts: Mapping[str, str], sites: Sequence[Site]) -> Iterator[str]:
    """Write the report's lines."""
    newest = list(texts)[-1]
    yield "# Coverage and drift"
    yield ""
    yield f"Written by `make drift` from the wheels {', '.join(texts)}; the newest is {newest}."
    yield ""
    yield from write_drift(rules, texts)
    yield from write_coverage(rules, sites, newest)


def write_drift(rules: Sequence[Rule], texts: Mapping[str, str]) -> Iterator[str]:
    """List literals that are gone from the newest version, and ranges that do not fit."""
    counts = {"in the newest version": 0, "only in older versions": 0, "not SGLang's own text": 0}
    gone, misfits = [], []
    for rule in rules:
        for match in rule.matches:
            present = [version for version, text in texts.items() if has_keywords(match, text)]
            if match.event == "facts" or not present:
                counts["not SGLang's own text"] += 1
            elif present[-1] == list(texts)[-1]:
                counts["in the newest version"] += 1
            else:
                counts["only in older versions"] += 1
                found = f"{present[0]} to {present[-1]}"
                gone.append(f"| {rule.id} | {' … '.join(match.keywords)} | {found} | {rule.applies or 'all'} |")
            outside = [version for version in present if not is_within(version, rule.applies)]
            if outside and match.event != "facts":
                misfits.append(f"| {rule.id} | {' … '.join(match.keywords)} | {', '.join(outside)} | {rule.applies} |")
    yield "## Literals of rules"
    yield ""
    yield (
        "A rule's literal is SGLang's own, or torch's, argparse's, the kernel's. "
        + ", ".join(f"{count} {what}" for what, count in counts.items())
        + "."
    )
    yield ""
    yield "### Only in older versions"
    yield ""
    yield from ("| rule | literal | found in | applies |", "|--|--|--|--|", *gone)
    yield ""
    yield "### Found outside `applies`"
    yield ""
    yield "The same words with another meaning or another cure; each range was looked at."
    yield ""
    yield from ("| rule | literal | also in | applies |", "|--|--|--|--|", *misfits)
    yield ""


def has_keywords(match: Match, text: str) -> bool:
    """True when every keyword stands somewhere in the version's literals."""
    return bool(match.keywords) and all(keyword in text for keyword in match.keywords)


def write_coverage(rules: Sequence[Rule], sites: Sequence[Site], newest: str) -> Iterator[str]:
    """Give the share of sites that a rule covers, by folder, worst first."""
    matches = [match for rule in rules for match in rule.matches if match.keywords]
    totals: dict[str, list[int]] = {}
    for site in sites:
        good = any(all(keyword in site.text for keyword in match.keywords) for match in matches)
        row = totals.setdefault(site.folder, [0, 0])
        row[0] += good
        row[1] += 1
    covered, every = sum(row[0] for row in totals.values()), sum(row[1] for row in totals.values())
    yield f"## Error sites of {newest}"
    yield ""
    share = f"{covered / max(every, 1):.0%}"
    yield f"A rule covers {covered} of {every} raise, assert and error-log sites with a message ({share})."
    yield "The others are explained as unrecognised exceptions: type, message, place and phase."
    yield "Worst first, folders with ten sites or more:"
    yield ""
    yield from ("| folder | covered | sites | share |", "|--|--|--|--|")
    for folder, (hits, count) in sorted(totals.items(), key=lambda item: (item[1][0] / item[1][1], -item[1][1])):
        if count >= 10:
            yield f"| {folder} | {hits} | {count} | {hits / count:.0%} |"


if __name__ == "__main__":
    sys.exit(main())

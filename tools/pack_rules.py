"""Write doctor/diagnosis/rules.json and pages.json from rules/; refuse rules that the linter refuses.

Usage: python tools/pack_rules.py [--check] [--quick]
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from doctor.diagnosis.lint import lint_rules, load_rules
from doctor.diagnosis.load import PACK, PAGES, pack_pages, pack_rules

ROOT = Path(__file__).resolve().parent.parent


def main(arguments: list[str]) -> int:
    """Pack, or with --check only compare; --quick skips the linter."""
    loaded, problems = load_rules(ROOT / "rules")
    if "--quick" not in arguments:
        problems += lint_rules(loaded)
    texts = {
        PACK: pack_rules(rule for rule, _ in loaded),
        PAGES: pack_pages({rule.id: page for rule, page in loaded}),
    }
    for problem in problems:
        print(problem, file=sys.stderr)
    if problems:
        return 1
    if "--check" in arguments:
        stale = [path.name for path, text in texts.items() if not path.exists() or path.read_text("utf-8") != text]
        print(f"stale: {', '.join(stale)}; run: make rules" if stale else "rules.json and pages.json are up to date")
        return int(bool(stale))
    for path, text in texts.items():
        path.write_text(text, "utf-8")
    print(f"{len(loaded)} rules packed")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

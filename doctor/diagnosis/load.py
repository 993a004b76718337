"""Read rules: the shipped pack (JSON, generated) for speed, TOML files for authors and users."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from doctor.diagnosis.rule import Condition, EditTemplate, Example, FixTemplate, Match, Page, Rule, Variant
from doctor.errors import DoctorError

PACK = Path(__file__).with_name("rules.json")
PAGES = Path(__file__).with_name("pages.json")

_EVENTS = ("line", "exception", "usage", "kernel", "facts")
_CONDITIONS = ("none", "near", "sequence", "count", "absent-after", "repeat-without-progress")
_ROLES = ("root", "cascade", "confirmation", "context", "benign")
_LEVELS = ("error", "warning", "info")
_CONFIDENCE = ("confirmed", "likely", "possible")
_SAFETY = ("safe", "review", "manual")
_RECOVERABLE = ("never", "maybe", "unknown")


class RuleError(DoctorError):
    """A rule file is not valid; the message starts with its path and the place in it."""


def load_pack() -> tuple[Rule, ...]:
    """Read the rules that ship with the package."""
    return tuple(_unpack_rule(row) for row in json.loads(PACK.read_text("utf-8")))


def load_pages() -> dict[str, Page]:
    """Read the pages of the shipped rules, by rule id."""
    rows = json.loads(PAGES.read_text("utf-8"))
    return {
        rule_id: Page(row[0], row[1], row[2], row[3], tuple(row[4]), tuple(Example(*example) for example in row[5]))
        for rule_id, row in rows.items()
    }


def pack_rules(rules: Iterable[Rule]) -> str:
    """Write the pack, one rule a line, in order of id."""
    return _one_per_line(json.dumps(rule, ensure_ascii=False) for rule in sorted(rules, key=lambda rule: rule.id))


def pack_pages(pages: Mapping[str, Page]) -> str:
    """Write the pages, one a line, in order of id."""
    rows = (f"{json.dumps(rule_id)}: {json.dumps(page, ensure_ascii=False)}" for rule_id, page in sorted(pages.items()))
    return "{\n" + ",\n".join(rows) + "\n}\n"


def _one_per_line(rows: Iterable[str]) -> str:
    return "[\n" + ",\n".join(rows) + "\n]\n"


def _unpack_rule(row: list[Any]) -> Rule:
    rule = Rule(*row)
    return rule._replace(
        matches=tuple(
            Match(item[0], tuple(item[1]), item[2], tuple(item[3]), item[4], tuple(item[5])) for item in rule.matches
        ),
        conditions=tuple(Condition(item[0], tuple(item[1]), *item[2:]) for item in rule.conditions),
        explains=tuple(rule.explains),
        variants=tuple(Variant(*item) for item in rule.variants),
        fixes=tuple(
            FixTemplate(*item[:5], edits=tuple(EditTemplate(edit[0], tuple(edit[1]), *edit[2:]) for edit in item[5]))
            for item in rule.fixes
        ),
        missing=tuple(rule.missing),
    )


def find_rule_files(folder: Path) -> list[Path]:
    """List the rule files under a folder, in order of path; raises DoctorError when it is no folder."""
    if not folder.is_dir():
        raise DoctorError(f"{folder}: no such folder of rules", "give the folder that holds FAMILY/ID.toml files")
    return sorted(folder.rglob("*.toml"))


def load_rule_file(path: Path) -> tuple[Rule, Page]:
    """Read one rule from TOML; raises RuleError naming the file and the field."""
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    try:
        data = tomllib.loads(path.read_text("utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError, RecursionError) as error:
        raise RuleError(f"{path}: {error}") from error
    table = _Table(data, str(path))
    rule = _read_rule(table, path.parent.name)
    page = _read_page(table)
    table.finish()
    return rule, page


class _Table:
    """A TOML table whose fields are taken one by one; what is left at the end is a mistake."""

    def __init__(self, data: dict[str, Any], where: str) -> None:
        self._data = dict(data)
        self._where = where

    def text(self, key: str, default: str | None = None, choices: tuple[str, ...] = ()) -> str:
        value = self._data.pop(key, default)
        if not isinstance(value, str):
            raise RuleError(
                f"{self._where}: {key} must be a text" if value is not None else f"{self._where}: {key} is missing"
            )
        if choices and value not in choices:
            raise RuleError(f"{self._where}: {key} = {value!r} is none of {', '.join(choices)}")
        return value.strip("\n") if key in ("pattern", "log") else " ".join(value.split())

    def raw(self, key: str, default: str | None = None) -> str:
        value = self._data.pop(key, default)
        if not isinstance(value, str):
            raise RuleError(f"{self._where}: {key} is missing or no text")
        return value

    def texts(self, key: str) -> tuple[str, ...]:
        value = self._data.pop(key, [])
        if isinstance(value, str):
            value = [value]
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            raise RuleError(f"{self._where}: {key} must be a list of texts")
        return tuple(value)

    def number(self, key: str, default: float = 0) -> Any:
        value = self._data.pop(key, default)
        if not isinstance(value, int | float):
            raise RuleError(f"{self._where}: {key} must be a number")
        return value

    def flag(self, key: str, *, default: bool | None = None) -> bool:
        value = self._data.pop(key, default)
        if not isinstance(value, bool):
            raise RuleError(f"{self._where}: {key} must be true or false")
        return value

    def tables(self, key: str) -> list[_Table]:
        value = self._data.pop(key, [])
        if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
            raise RuleError(f"{self._where}: write [[{key}]]")
        return [_Table(item, f"{self._where}: [[{key}]] {index}") for index, item in enumerate(value, 1)]

    def facts(self, key: str) -> dict[str, Any]:
        value = self._data.pop(key, {})
        if not isinstance(value, dict):
            raise RuleError(f'{self._where}: {key} must be a table such as {{"response.degenerate" = true}}')
        return value

    def table(self, key: str) -> _Table:
        value = self._data.pop(key, None)
        if not isinstance(value, dict):
            raise RuleError(f"{self._where}: [{key}] is missing")
        return _Table(value, f"{self._where}: [{key}]")

    def optional(self, key: str) -> str | None:
        return self.text(key) if key in self._data else None

    def finish(self) -> None:
        if self._data:
            raise RuleError(f"{self._where}: unknown field {', '.join(sorted(self._data))}")


def _read_rule(table: _Table, family: str) -> Rule:
    return Rule(
        id=table.text("id"),
        name=table.text("name"),
        family=family,
        title=table.text("title"),
        severity=table.text("severity", "error", _LEVELS),
        role=table.text("role", "root", _ROLES),
        confidence=table.text("confidence", "confirmed", _CONFIDENCE),
        recoverable=table.text("recoverable", "unknown", _RECOVERABLE),
        applies=table.text("applies", ""),
        cause=table.text("cause"),
        why=table.text("why"),
        when=table.text("when", ""),
        matches=tuple(_read_match(item) for item in table.tables("match")),
        conditions=tuple(_read_condition(item) for item in table.tables("condition")),
        explains=table.texts("explains"),
        variants=tuple(_read_variant(item) for item in table.tables("variant")),
        fixes=tuple(_read_fix(item) for item in table.tables("fix")),
        missing=tuple(" ".join(text.split()) for text in table.texts("missing")),
        general=table.flag("general", default=False),
    )


def _read_match(table: _Table) -> Match:
    match = Match(
        table.text("event", "line", _EVENTS),
        table.texts("keywords"),
        table.text("pattern", ""),
        table.texts("phase"),
        table.text("frame", ""),
        table.texts("evidence"),
    )
    table.finish()
    return match


def _read_condition(table: _Table) -> Condition:
    condition = Condition(
        table.text("kind", None, _CONDITIONS),
        table.texts("keywords"),
        table.text("pattern", ""),
        table.number("within_lines"),
        table.number("within_seconds"),
        table.text("same", "", ("", "rank", "process")),
        table.number("at_least", 1),
    )
    table.finish()
    return condition


def _read_variant(table: _Table) -> Variant:
    variant = Variant(
        table.text("when"),
        table.text("title", ""),
        table.text("cause", ""),
        table.text("why", ""),
        table.text("confidence", "", ("", *_CONFIDENCE)),
        table.text("severity", "", ("", *_LEVELS)),
    )
    table.finish()
    return variant


def _read_fix(table: _Table) -> FixTemplate:
    fix = FixTemplate(
        table.text("title"),
        table.text("safety", "review", _SAFETY),
        table.text("when", ""),
        table.text("why", ""),
        table.text("verify", ""),
        tuple(_read_edit(item) for item in table.tables("edit")),
    )
    table.finish()
    return fix


def _read_edit(table: _Table) -> EditTemplate:
    edit = EditTemplate(
        table.text("kind", "flag", ("flag", "env", "package", "shell")),
        table.texts("name"),
        table.optional("to"),
        table.text("when", ""),
    )
    table.finish()
    if not edit.names:
        raise RuleError("an edit needs a name")
    return edit


def _read_page(table: _Table) -> Page:
    prose = table.table("page")
    page = Page(
        means=prose.text("means"),
        happens=prose.text("happens"),
        look_alikes=prose.text("look_alikes"),
        wrong_when=prose.text("wrong_when"),
        references=prose.texts("references"),
        examples=tuple(_read_example(item) for item in table.tables("example")),
    )
    prose.finish()
    return page


def _read_example(table: _Table) -> Example:
    example = Example(
        table.text("name"), table.flag("fires"), table.raw("log"), table.text("command", ""), table.facts("facts")
    )
    table.finish()
    return example

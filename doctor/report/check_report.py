"""What a check found, ready to be written: cleaned, counted, compared."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple, Protocol

from doctor.launch.edits import Edit
from doctor.probes.base.result import SEVERITIES, Result
from doctor.redact import clean, shorten
from doctor.report.interface import Target, import_format

FORMATS = ("text", "json", "markdown", "junit")
LEVELS = ("never", "error", "warning")


class Difference(NamedTuple):
    """One fact or probe that differs from the saved check; "(none)" where one side has nothing."""

    name: str
    saved: str
    now: str


class CheckReport(NamedTuple):
    """One check. `corrected` is the launch with every edit that mends something; `differences` is for --compare.

    `version` is that of the installed sglang, empty when it is not installed, None when nobody looked or could.
    """

    results: tuple[Result, ...]
    groups: Mapping[str, str]
    python: str
    version: str | None
    command: str | None
    corrected: str | None
    seconds: float
    differences: tuple[Difference, ...] | None = None

    @property
    def problems(self) -> list[Result]:
        """The problems, worst first."""
        found = [result for result in self.results if result.status == "problem"]
        return sorted(found, key=lambda result: SEVERITIES.index(result.severity))

    def select(self, status: str) -> list[Result]:
        """Return the results with a status."""
        return [result for result in self.results if result.status == status]


class Renderer(Protocol):
    """A format's module."""

    def render(self, report: CheckReport, target: Target) -> str:
        """Write the report."""


def load_renderer(name: str) -> Renderer:
    """Import the module of a format; raises DoctorError for an unknown one."""
    module: Renderer = import_format("check", name, FORMATS)
    return module


def clean_result(result: Result) -> Result:
    """Return a result with secrets and control characters out of every text, and long texts shortened."""
    return result._replace(
        summary=shorten(clean(result.summary)),
        evidence=tuple(shorten(clean(line)) for line in result.evidence),
        fixes=tuple(clean(line) for line in result.fixes),
        edits=tuple(Edit(edit.kind, edit.name, *map(clean_value, (edit.before, edit.after))) for edit in result.edits),
        reason=shorten(clean(result.reason)),
        facts=tuple(clean_fact(name, value) for name, value in result.facts),
    )


def clean_fact(name: str, value: str) -> tuple[str, str]:
    """Return a fact, cleaned as `name=value`: what is secret shows in the name."""
    before, _, after = shorten(clean(f"{name}={value}")).partition("=")
    return before, after


def clean_value(value: str | None) -> str | None:
    """Return a value that may be None, cleaned."""
    return None if value is None else clean(value)


def name_version(report: CheckReport) -> str | None:
    """Say which SGLang is installed, None when that is not known."""
    return None if report.version is None else f"SGLang {report.version}" if report.version else "SGLang not installed"


def count(report: CheckReport) -> dict[str, int]:
    """Count errors, warnings, notes and the other states."""
    severities = [result.severity for result in report.problems]
    return {
        "error": severities.count("error"),
        "warning": severities.count("warning"),
        "info": severities.count("info"),
        "unknown": len(report.select("unknown")),
        "not-applicable": len(report.select("not-applicable")),
        "ok": len(report.select("ok")),
    }


def summarise(report: CheckReport) -> str:
    """Say in one line what was found."""
    counts = count(report)
    parts = [plural(counts["error"], "error"), plural(counts["warning"], "warning")]
    found = " and ".join(filter(None, parts)) or "nothing wrong"
    unknown = f"; {counts['unknown']} could not be checked" if counts["unknown"] else ""
    return f"{found}{unknown}; {counts['ok']} ok"


def plural(number: int, noun: str) -> str:
    """Return `2 errors`, and nothing for none."""
    return f"{number} {noun}{'s' if number > 1 else ''}" if number else ""


def exit_code(report: CheckReport, fail_on: str) -> int:
    """Give 1 when there is a problem at or above the level."""
    levels = LEVELS[1 : LEVELS.index(fail_on) + 1]
    return int(any(result.severity in levels for result in report.problems))


def to_data(report: CheckReport) -> dict[str, Any]:
    """Return the report as plain data, which --format json prints and --save writes."""
    from doctor import __version__

    data: dict[str, Any] = {
        "schema_version": 1,
        "tool_version": __version__,
        "seconds": round(report.seconds, 3),
        "python": report.python,
        "sglang_version": report.version or None,
        "summary": count(report),
        "results": [describe(result, report.groups) for result in report.results],
        "facts": dict(fact for result in report.results for fact in result.facts),
        "command": {"given": report.command, "corrected": report.corrected},
    }
    if report.differences is not None:
        data["differences"] = [difference._asdict() for difference in report.differences]
    return data


def describe(result: Result, groups: Mapping[str, str]) -> dict[str, Any]:
    """Return one result as plain data."""
    edits = [{"kind": edit.kind, "name": edit.name, "from": edit.before, "to": edit.after} for edit in result.edits]
    return {
        "probe": result.probe,
        "group": groups.get(result.probe, ""),
        "status": result.status,
        "severity": result.severity if result.status == "problem" else None,
        "summary": result.summary,
        "evidence": list(result.evidence),
        "fixes": list(result.fixes),
        "edits": edits,
        "reason": f"could not check because {result.reason}" if result.reason else None,
    }


def compare(saved: Mapping[str, Any], report: CheckReport) -> tuple[Difference, ...]:
    """List what differs between a saved check and this one: facts first, then what each probe says."""
    now = to_data(report)
    old, new = read_texts(saved.get("facts")), read_texts(now["facts"])
    facts = [*diff(old, new)]
    states = diff(read_states(saved.get("results")), read_states(now["results"]))
    return (*facts, *states)


def diff(old: Mapping[str, str], new: Mapping[str, str]) -> Iterable[Difference]:
    """Yield the names whose values differ."""
    for name in dict.fromkeys([*old, *new]):
        before, after = old.get(name, "(none)"), new.get(name, "(none)")
        if before != after:
            yield Difference(clean(name), shorten(clean(before)), after)


def read_texts(data: Any) -> dict[str, str]:
    """Read a mapping of texts from a file that may hold anything."""
    return {str(name): str(value) for name, value in data.items()} if isinstance(data, dict) else {}


def read_states(rows: Any) -> dict[str, str]:
    """Return each probe's problems in words, `ok` when it has none."""
    states: dict[str, str] = {}
    for row in rows if isinstance(rows, list) else []:
        if not isinstance(row, dict) or not isinstance(row.get("probe"), str):
            continue
        status = str(row.get("status"))
        text = str(row.get("summary")) if status == "problem" else status
        before = states.get(row["probe"])
        states[row["probe"]] = (
            text if before in (None, "ok", text) else f"{before}; {text}" if status == "problem" else before or ""
        )
    return states

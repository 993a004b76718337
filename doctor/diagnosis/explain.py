"""The whole way from files to the answer; every front end (`explain`, `run`, tests) goes through here."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from doctor.diagnosis.commands import add_command_facts, find_launch
from doctor.diagnosis.episodes import became_ready, split_episodes
from doctor.diagnosis.evidence import list_evidence
from doctor.diagnosis.expressions import fill, holds
from doctor.diagnosis.facts import Facts, build_facts
from doctor.diagnosis.findings import Episode, Finding, find_findings
from doctor.diagnosis.fixes import Bench, build_fixes
from doctor.diagnosis.missing import list_missing
from doctor.diagnosis.model import Diagnosis, InputFile, Report
from doctor.diagnosis.observe import Observations
from doctor.diagnosis.public import publish_facts
from doctor.diagnosis.resolve import Judged, resolve
from doctor.diagnosis.rule import Rule, Variant
from doctor.diagnosis.unknown import find_unexplained
from doctor.diagnosis.unrecognised import describe_unexplained
from doctor.diagnosis.usage_facts import find_typed_facts, find_usage_facts
from doctor.diagnosis.versions import recognise_version
from doctor.launch.flags import load_table
from doctor.launch.torch_versions import torch_of
from doctor.logs.events.types import BatchStats
from doctor.redact import clean

_EPISODES = 8
"""Starts of one log that are looked at, the last ones; a crash loop repeats itself."""

_WHOLE = 50
"""Fewer fields are an excerpt; the oldest known version has 145 flags."""


class Question(NamedTuple):
    """What the user gave besides the log: the launch command and facts about a model's answer."""

    command: str | None = None
    facts: Mapping[str, Any] = {}


def diagnose(rules: Sequence[Rule], observations: Observations, question: Question = Question()) -> Report:  # noqa: B008 - frozen
    """Give the report on what was observed. Raises DoctorError when the given command cannot be read.

    The last start in the log is diagnosed, or the last one that failed if it says nothing yet; of servers that ran
    beside each other, one that failed. Earlier failures are named as context.
    """
    episodes = split_episodes(observations.events)[-_EPISODES:]
    reports = [_diagnose_episode(rules, observations, question, episode) for episode in episodes]
    chosen = _choose(episodes, reports)
    earlier = [report.root for report in reports[:chosen] if report.root]
    return reports[chosen]._replace(diagnoses=(*reports[chosen].diagnoses, *_name_earlier(earlier)))


def _choose(episodes: Sequence[Episode], reports: Sequence[Report]) -> int:
    """Give the number of the start to diagnose: an unfinished one yields to a failure above it, not to a success."""
    last = len(reports) - 1
    number = next((at for at in range(last, -1, -1) if reports[at].root or reports[at].verdict == "healthy"), last)
    while reports[number].root is None and number > 0 and episodes[number].beside:
        number -= 1
    return number if reports[number].root else last


def _name_earlier(roots: Sequence[Diagnosis]) -> Iterator[Diagnosis]:
    """Say what ended earlier starts, once for each cause."""
    for rule in dict.fromkeys(root.rule for root in roots):
        same = [root for root in roots if root.rule == rule]
        times = f"{len(same)} earlier starts" if len(same) > 1 else "an earlier start"
        title = f"{times} in this log failed: {same[-1].title}"
        yield same[-1]._replace(role="context", title=title, times=len(same), fixes=())


def _diagnose_episode(
    rules: Sequence[Rule], observations: Observations, question: Question, episode: Episode
) -> Report:
    inside = _limit(observations, episode)
    facts = build_facts(inside).with_values(question.facts)
    version, source = find_version(facts)
    table = load_table(version)
    launch = find_launch(question.command, facts, table)
    facts = add_command_facts(facts, launch, table).with_values({"sglang.version": version})
    if version and not facts.get("torch.version"):
        facts = facts.with_values({"torch.version": torch_of(version)})
    if facts.get("usage.raw"):
        facts = facts.with_values(find_usage_facts(facts["usage.raw"], table))
    if facts.get("usage.raw") and launch:
        facts = facts.with_values(find_typed_facts(facts, launch.command, table))
    findings = find_findings(rules, observations, facts, episode)
    judged = resolve(findings, observations, episode)
    ready = became_ready(observations.events, episode) is not None
    bench = Bench(launch, table, version)
    diagnoses = [describe(item, bench) for item in judged]
    if not any(item.role == "root" for item in judged):
        claimed = [(item.role, hit) for item in judged for hit in item.finding.hits]
        unexplained = find_unexplained(observations.events, episode, claimed, ready=ready)
        if unexplained:
            diagnoses.insert(0, describe_unexplained(unexplained, facts, rules))
    verdict = find_verdict(diagnoses, inside, facts, ready=ready)
    primary = next((item.finding for item in judged if item.role == "root"), None)
    return Report(
        tuple(
            InputFile(name, size, count, observations.cut > 0)
            for name, size, count in zip(observations.files, observations.sizes, observations.records, strict=True)
        ),
        version,
        source,
        verdict,
        find_phase(judged, facts),
        tuple(diagnoses),
        tuple(_missing(verdict, primary, diagnoses, facts)),
        publish_facts(facts),
        launch.source if launch else None,
        clean(launch.command.text) if launch else None,
    )


def _limit(observations: Observations, episode: Episode) -> Observations:
    """Keep an episode's events; its batch lines are those among them, as the others served an earlier start."""
    events = tuple(event for event in observations.events if episode.holds_record(event.record))
    if len(events) == len(observations.events):
        return observations
    return observations._replace(events=events, stat_count=sum(isinstance(event, BatchStats) for event in events))


def find_version(facts: Facts) -> tuple[str | None, str | None]:
    """Name SGLang's version and how it is known: stated in the log, or recognised by the fields of the dump."""
    stated = facts.get("sglang.version")
    if isinstance(stated, str):
        return stated, "stated in the log"
    fields = [name.removeprefix("args.") for name in facts if name.startswith("args.")]
    if len(fields) > _WHOLE and (version := recognise_version(fields)):
        return version, "recognised by the fields of server_args"
    listed = facts.get("usage.options") or ()
    if len(listed) > _WHOLE and (version := recognise_version(listed, options=True)):
        return version, "recognised by the flags of the usage text"
    return None, None


def describe(item: Judged, bench: Bench) -> Diagnosis:
    """Fill in a rule's texts with the facts of this log."""
    finding, rule = item.finding, item.finding.rule
    words = choose_words(rule, finding.facts)
    return Diagnosis(
        rule.id,
        rule.name,
        clean(fill(words.title, finding.facts)),
        item.role,
        words.severity,
        words.confidence,
        finding.ranks,
        finding.times,
        clean(fill(words.cause, finding.facts)),
        clean(fill(words.why, finding.facts)),
        list_evidence(finding),
        build_fixes(rule, finding.facts, bench) if item.role in ("root", "alternative", "context", "benign") else (),
        rule.recoverable,
    )


def choose_words(rule: Rule, facts: Facts) -> Variant:
    """Take the first variant whose condition holds; its empty fields fall back to the rule's own."""
    variant = next((variant for variant in rule.variants if holds(variant.when, facts)), Variant(""))
    return Variant(
        variant.when,
        variant.title or rule.title,
        variant.cause or rule.cause,
        variant.why or rule.why,
        variant.confidence or rule.confidence,
        variant.severity or rule.severity,
    )


def find_verdict(diagnoses: Sequence[Diagnosis], observations: Observations, facts: Facts, *, ready: bool) -> str:
    """Decide between failure, healthy, incomplete (no cause in the input, or still starting) and unknown."""
    if any(item.role == "root" for item in diagnoses):
        return "failure"
    if any(item.role == "consequence" for item in diagnoses):
        return "incomplete"
    if not observations.files and facts.get("response.degenerate") is False:
        return "healthy"
    if facts.get("traceback.fatal"):
        return "incomplete"
    if ready or (observations.stat_count and not facts.get("traceback.cut")):
        return "healthy"
    if facts.get("response.error") is not None and any(item.role == "context" for item in diagnoses):
        return "healthy"  # the server lives: it refused one request, and the reason is known
    stamped = facts.get("log.newest") or (observations.last and observations.last.time)
    looks = stamped or observations.events or any(not name.startswith(("log.", "sglang.")) for name in facts)
    return "incomplete" if looks or any(item.role == "benign" for item in diagnoses) else "unknown"


def find_phase(judged: Sequence[Judged], facts: Facts) -> str | None:
    """Name the phase the cause happened in, else the last one the log reached."""
    if judged and judged[0].role == "root" and judged[0].finding.first.phase != "unknown":
        return judged[0].finding.first.phase
    last = facts.get("phase.last")
    return last if isinstance(last, str) else None


def _missing(verdict: str, primary: Finding | None, diagnoses: Sequence[Diagnosis], facts: Facts) -> list[str]:
    if primary is not None:
        return [clean(fill(text, primary.facts)) for text in primary.rule.missing]
    return list_missing(verdict, diagnoses, facts)

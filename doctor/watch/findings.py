"""What only the watchdog can see, as diagnoses; they join the engine's report and never replace a better cause."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Any, NamedTuple

from doctor.diagnosis.model import Diagnosis, Fix, Report
from doctor.launch.edits import Edit
from doctor.redact import clean
from doctor.watch.model import Death, Run


class Finding(NamedTuple):
    """One kind of fault. `wins`: it is the cause even where the log names another one.

    `recoverable` as in rules; `fix` is (title, safety, why), `look` the command to begin with.
    """

    rule: str
    name: str
    title: str
    cause: str
    why: str
    fix: tuple[str, str, str]
    recoverable: str
    look: str
    wins: bool = False


FINDINGS: Mapping[str, Finding] = {
    "stopped": Finding(
        "WATCH001",
        "process-stopped",
        "A process of the server was stopped (SIGSTOP) and served nobody",
        "{words}. A stopped process runs no code: requests hang, /health hangs, and SGLang's own watchdog, which lives "
        "in the same process, is stopped with it.",
        "The kernel shows state T for this process; nothing is logged in such a case.",
        (
            "Find who sent SIGSTOP: a debugger, a checkpoint tool, docker pause, job control",
            "manual",
            "SIGCONT would have let it go on; the doctor ended it because requests were waiting.",
        ),
        "maybe",
        "less {evidence}/processes.txt",
        wins=True,
    ),
    "rank-dead": Finding(
        "WATCH002",
        "rank-died",
        "A process that the server cannot live without is gone",
        "{words}. It was the first process of the server to die; what followed is SGLang ending the others.",
        "The process table shows it; the log holds no cause of its own for it.",
        (
            "Look for whoever sends signals: the kernel log (dmesg -T), the container's limits, an operator",
            "manual",
            "Signal 9 without a kernel record was sent by a program or a person.",
        ),
        "maybe",
        "dmesg -T | grep -iE 'oom|killed process'",
    ),
    "port-taken": Finding(
        "WATCH003",
        "port-clash-zombie",
        "The server is loaded and cannot be reached: another program holds its port",
        "{words}. Such a server lingers without serving and without ending.",
        "The bind error stands in the log, and the port does not belong to any process of this server.",
        ("Stop the other program, or choose another --port", "manual", "ss -ltnp shows who listens."),
        "never",
        "ss -ltnp",
    ),
    "foreign-server": Finding(
        "WATCH004",
        "another-server-answers",
        "Another server answers on this server's port",
        '{words}. The log says "fired up" because the other server answered the warm-up request.',
        "The listening socket does not belong to a process of this server.",
        ("Stop the other server, or choose another --port", "manual", "ss -ltnp shows who listens."),
        "never",
        "ss -ltnp",
        wins=True,
    ),
    "no-completion": Finding(
        "WATCH005",
        "first-completion-failed",
        "The server says that it is ready and completes nothing",
        "{words}.",
        'A short completion was sent to this very server after "fired up", and none came back.',
        (
            "Read the evidence: stacks of all ranks at that moment",
            "manual",
            "It was taken before the server was ended.",
        ),
        "maybe",
        "less {evidence}/stack-*.txt",
    ),
    "silent-start": Finding(
        "WATCH006",
        "start-makes-no-progress",
        "The start stands still",
        "{words}: no output, no bytes moved, no compiler at work.",
        "A slow disk, a download and a compilation all count as progress, so this is none of them.",
        ("Read the stacks of all ranks in the evidence folder", "manual", "They show what each rank waits for."),
        "maybe",
        "less {evidence}/stack-*.txt",
    ),
    "stalled": Finding(
        "WATCH007",
        "requests-without-progress",
        "Requests wait and the scheduler runs no batch: a deadlock",
        "{words}, and a health probe sent meanwhile got no token either. The processes exist; none makes progress.",
        "A busy server prints batch lines or answers the probe.",
        ("Read the stacks of all ranks in the evidence folder", "manual", "They show what each rank waits for."),
        "maybe",
        "less {evidence}/stack-*.txt {evidence}/gpus.txt",
    ),
    "unhealthy": Finding(
        "WATCH008",
        "health-without-token",
        "The server answers HTTP and generates nothing",
        "{words}, and no batch was run since.",
        "/health runs one token through scheduler and detokenizer.",
        ("Read the stacks of all ranks in the evidence folder", "manual", "They show what each rank waits for."),
        "maybe",
        "less {evidence}/stack-*.txt {evidence}/gpus.txt",
    ),
    "host-memory": Finding(
        "WATCH009",
        "host-memory-guard",
        "The host was about to run out of memory; the doctor stopped the server first",
        "{words}. A moment later the kernel's OOM killer would have chosen a victim, or the machine would have frozen.",
        "Memory of the machine and of its cgroup was measured up to the end; see memory.txt in the evidence.",
        (
            "Offload less, or give the host more memory; --host-reserve changes the limit",
            "manual",
            "doctor plan shows what this launch needs.",
        ),
        "never",
        "less {evidence}/memory.txt",
        wins=True,
    ),
}


def join(report: Report, run: Run, extra: tuple[Fix, ...] = ()) -> Report:
    """Add the watchdog's own finding to the report, as the cause where there is no better one."""
    fault = run.fault
    if fault is None:
        return report
    finding = FINDINGS[fault.kind]
    is_root = finding.wins or report.root is None
    own = _describe(finding, run, "root" if is_root else "context", extra)
    if not is_root:
        return report._replace(diagnoses=(*report.diagnoses, own))
    others = tuple(item._replace(role="alternative" if item.role == "root" else item.role) for item in report.diagnoses)
    return report._replace(verdict="failure", diagnoses=(own, *others), missing=())


def _describe(finding: Finding, run: Run, role: str, extra: tuple[Fix, ...]) -> Diagnosis:
    title, safety, why = finding.fix
    words = run.fault.words if run.fault else ""
    where = f" Evidence: {run.evidence}" if run.evidence else ""
    return Diagnosis(
        finding.rule,
        finding.name,
        finding.title,
        role,
        "error",
        "confirmed",
        (),
        1,
        clean(finding.cause.format(words=words if words.startswith("sglang::") else words[:1].upper() + words[1:])),
        clean(finding.why + where),
        (),
        (*extra, Fix(title, safety, _advise(finding, run), None, None, why, "")),
        finding.recoverable,
    )


def _advise(finding: Finding, run: Run) -> tuple[Edit, ...]:
    """Give the command to begin with; files of the evidence only where there are some."""
    if "{evidence}" in finding.look and not run.evidence:
        return ()
    return (Edit("shell", finding.look.format(evidence=shlex.quote(run.evidence)), None, None),)


def list_facts(run: Run, cgroup_kills: int, asked: bool) -> dict[str, Any]:
    """Give the facts that only the watchdog has, for the rules."""
    first = find_first_death(run)
    facts: dict[str, Any] = {
        "watch.code": run.code,
        "watch.asked": asked,
        "watch.first_death": first.title if first else None,
        "watch.first_death_pid": first.pid if first else None,
        "watch.signal": -first.code if first and first.code is not None and first.code < 0 else None,
        "watch.cgroup_kills": cgroup_kills or None,
        "watch.fault": run.fault.kind if run.fault else None,
    }
    if cgroup_kills:
        facts |= _describe_kill(run)
    return {name: value for name, value in facts.items() if value is not None}


def find_first_death(run: Run) -> Death | None:
    """Give the first rank that died, None when the main process went before it."""
    first = run.deaths[0] if run.deaths else None
    return first if first and (run.exited is None or first.time <= run.exited) else None


def _describe_kill(run: Run) -> dict[str, Any]:
    """Put the cgroup's count of kills in the words of the kernel's record, which may be unreadable in a container."""
    first = find_first_death(run)
    return {
        "kernel.oom_pid": first.pid if first else run.pid,
        "kernel.oom_task": first.title if first else "the server's main process",
        "kernel.oom_constraint": "CONSTRAINT_MEMCG",
        "kernel.oom_gib": run.most_memory / (1 << 30),
    }

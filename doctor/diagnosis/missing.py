"""Say what to look at next when the cause is not in the input: the exact commands that would settle it."""

from __future__ import annotations

from collections.abc import Sequence

from doctor.diagnosis.facts import Facts
from doctor.diagnosis.model import Diagnosis

_NOT_A_LOG = (
    "nothing in this input looks like output of an SGLang server: run it with 2>&1 | tee server.log and pass that file"
)
_ISSUE = "the versions in use: python3 -m sglang.check_env"


def list_missing(verdict: str, diagnoses: Sequence[Diagnosis], facts: Facts) -> list[str]:
    """List what to send or to run, most useful first; nothing for a healthy log."""
    if verdict == "healthy":
        return []
    if not facts.get("log.records"):
        return ["the server's log: doctor explain server.log"]
    if verdict == "failure":
        wanted = [] if facts.get("args.model_path") else ["the whole log from the server's first line"]
        return [*wanted, "the launch command, with --command", _ISSUE]
    if verdict == "unknown":
        return [_NOT_A_LOG]
    return _list_incomplete(diagnoses, facts)


def _list_incomplete(diagnoses: Sequence[Diagnosis], facts: Facts) -> list[str]:
    wanted = []
    consequences = [item for item in diagnoses if item.role == "consequence"]
    if facts.get("traceback.cut"):
        wanted.append(
            "the lines after the traceback: this excerpt ends before the exception itself, which names the cause"
        )
    if consequences:
        wanted.append(
            "the lines above this excerpt: look for the first traceback of any rank, "
            "for example: grep -n -m1 -A60 -e 'Traceback' -e 'hit an exception' server.log"
        )
        wanted.append("on a multi-node launch, the log of every other node: the first rank to fail may be there")
    else:
        wanted.append("the rest of the log after this point: the error has not been printed yet in this excerpt")
    if facts.get("exit.code") == -9 or any("kill" in item.name for item in consequences):
        wanted.append(
            "the kernel log, to see whether the OOM killer acted: doctor explain server.log --kernel-log <(dmesg -T)"
        )
    return wanted

"""Whether the model hub answers; asked only with --online."""

from __future__ import annotations

from collections.abc import Iterator

from doctor.probes.base.context import Context
from doctor.probes.base.result import Result, make_error, make_ok, make_unknown, make_void

NAME = "hub"
GROUP = "network"
SUMMARY = "the model hub answers"
NEEDS = ("hub",)
INSIDE = False


def probe(context: Context) -> Iterator[Result]:
    """Report the answer."""
    if not context.online:
        yield make_void(NAME, "the network is asked only with --online")
        return
    answer = context.look("hub")
    if answer.data is not None:
        yield make_ok(NAME, f"the hub answers with status {answer.data}")
    elif context.model is not None:
        yield make_unknown(NAME, SUMMARY, f"{answer.reason}; the model is on this machine, so it is not needed")
    else:
        fixes = ("set HF_ENDPOINT to a mirror that answers", "download the model elsewhere and give its folder")
        yield make_error(NAME, "the model hub does not answer", (answer.reason,), fixes)

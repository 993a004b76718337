"""Every rule's firing example in hostile surroundings: quoted by a user, cut short, interleaved, stripped, among foreign text."""

import json
import re

import pytest

from doctor.diagnosis.explain import Question
from doctor.diagnosis.load import load_pack, load_pages
from tests.helpers import explain_bytes
from tests.wrappings import WRAPPINGS

RULES = {rule.id: rule for rule in load_pack()}
EXAMPLES = [
    pytest.param(rule_id, example, id=f"{rule_id}-{number}")
    for rule_id, page in sorted(load_pages().items())
    for number, example in enumerate(page.examples)
    if example.fires and RULES[rule_id].role == "root" and not example.facts
]

HEALTHY = """\
[2026-01-01 00:00:01] server_args=ServerArgs(model_path='/models/m', tp_size=1, log_requests=True)
[2026-01-01 00:00:02] Load weight begin. avail mem=78.53 GB
[2026-01-01 00:00:09] Load weight end. elapsed=7.0 s, type=LlamaForCausalLM, avail mem=60.00 GB, mem usage=18.00 GB.
[2026-01-01 00:00:10] INFO:     Started server process [100]
[2026-01-01 00:00:10] INFO:     Uvicorn running on http://127.0.0.1:30000 (Press CTRL+C to quit)
[2026-01-01 00:00:11] The server is fired up and ready to roll!
"""
CHINESE = "启动服务器，请稍候\n模型加载中……显存不足怎么办？\n"


def explain(text: str, command: str = ""):
    return explain_bytes(("server.log", text.encode()), question=Question(command or None))


@pytest.mark.parametrize(("rule_id", "example"), EXAMPLES)
def test_example_quoted_in_a_logged_prompt_is_no_finding(rule_id, example) -> None:  # noqa: ARG001 - part of the id
    prompt = repr("Please explain this log:\n" + example.log)
    echo = f"[2026-01-01 00:00:12] Receive: obj=GenerateReqInput(rid='{'0' * 32}', text={prompt}, sampling_params={{'max_new_tokens': 8}})\n"
    event = json.dumps({"timestamp": "2026-01-01T00:00:13", "event": "request.finished", "text": example.log})
    report = explain(HEALTHY + echo + f"[2026-01-01 00:00:13] {event}\n")
    assert report.verdict == "healthy"
    assert not [item.rule for item in report.diagnoses if item.role != "benign"]


@pytest.mark.parametrize("carrier", ["docker json-file", "GCP", "CSV", "grep -n", "stern", "entities", "80 columns"])
@pytest.mark.parametrize(("rule_id", "example"), EXAMPLES[::25])
def test_example_quoted_in_a_logged_prompt_that_a_tool_wrapped_is_no_finding(rule_id, example, carrier: str) -> None:  # noqa: ARG001 - part of the id
    prompt = repr("Please explain this log:\n" + example.log)
    echo = f"[2026-01-01 00:00:12] Receive: obj=GenerateReqInput(rid='{'0' * 32}', text={prompt})\n"
    report = explain_bytes(("server.log", WRAPPINGS[carrier]((HEALTHY + echo).encode())))
    assert report.verdict == "healthy"
    assert not [item.rule for item in report.diagnoses if item.role != "benign"]


@pytest.mark.parametrize(("rule_id", "example"), EXAMPLES)
def test_example_cut_at_every_line_gives_the_cause_or_none(rule_id, example) -> None:
    whole = explain(example.log, example.command)
    allowed = {item.rule for item in whole.diagnoses} | {rule_id}
    lines = example.log.splitlines(keepends=True)
    for end in range(1, len(lines)):
        root = explain("".join(lines[:end]), example.command).root
        assert root is None or root.rule in allowed or is_weaker(root, rule_id, "".join(lines[:end])), (
            f"cut after line {end}"
        )


def is_weaker(root, rule_id: str, text: str) -> bool:
    """Accept what is true of the shorter text: an exception that stands in it unexplained, or a less certain sibling."""
    if root.rule == "GEN001":
        return root.title.partition(":")[0].rpartition(".")[2] in text
    if root.rule in RULES[rule_id].explains:
        return True
    return RULES[root.rule].family == RULES[rule_id].family and root.rule[:3] == rule_id[:3]


@pytest.mark.parametrize(("rule_id", "example"), EXAMPLES)
def test_example_among_foreign_text(rule_id, example) -> None:
    root = explain(CHINESE + example.log.strip("\n") + "\n" + CHINESE, example.command).root
    assert root is not None
    assert root.rule == rule_id


STAMP = re.compile(r"^(\[20\d\d-\d\d-\d\d \d\d:\d\d:\d\d(?:\.\d+)?)((?: [A-Z]\w*\d+)*)\] ", re.MULTILINE)


def needs_times(rule_id: str) -> bool:
    """True for a rule about how long something took, or how often."""
    rule = RULES[rule_id]
    counted = ("count", "repeat-without-progress")  # without time stamps many calls read as one
    return any(word in rule.when for word in ("_after", "seconds", "count")) or any(
        item.within_seconds or item.kind in counted for item in rule.conditions
    )


@pytest.mark.parametrize(("rule_id", "example"), EXAMPLES)
def test_example_without_timestamps(rule_id, example) -> None:
    root = explain(STAMP.sub("", example.log), example.command).root
    if not needs_times(rule_id):
        assert root is not None
    assert root is None or root.rule == rule_id


@pytest.mark.parametrize(("rule_id", "example"), EXAMPLES)
def test_example_shuffled_between_two_ranks(rule_id, example) -> None:
    heads = [found.start() for found in STAMP.finditer(example.log)]
    if not heads or "server_args" in example.log[heads[-1] :]:
        pytest.skip("nothing here is written by a rank")
    records = [example.log[begin:end] for begin, end in zip(heads, [*heads[1:], len(example.log)], strict=True)]
    shuffled = [example.log[: heads[0]]]
    for record in records:
        shuffled += [record] if "server_args" in record else [tag(record, "TP0"), tag(record, "TP1")]
    root = explain("".join(shuffled), example.command).root
    assert root is not None
    assert root.rule == rule_id


def tag(record: str, rank: str) -> str:
    """Give a record of one process to a rank; a record that has a rank keeps it."""
    return STAMP.sub(lambda found: found[0] if found[2] else f"{found[1]} {rank}] ", record, count=1)

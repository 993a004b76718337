"""No input makes the doctor crash, and the answer does not depend on how the bytes came."""

import json
import re
from pathlib import Path

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

from doctor.commands.explain import exit_code
from doctor.commands.response import read_response_facts
from doctor.diagnosis.explain import Question
from doctor.errors import DoctorError
from doctor.report.as_json import as_document
from doctor.report.interface import Target, load_renderer
from tests.helpers import FIXTURES, explain_bytes

LOGS = [path.read_bytes() for path in sorted(FIXTURES.glob("seed/*.log"))]
LINES = sorted({line for log in LOGS for line in log.splitlines(keepends=True) if len(line) < 3000})
HOSTILE = [
    b"[2026-04-24 06:29:19 TP0] ",
    b"[2026-04-24 06:29:20 TP1] Scheduler hit an exception: Traceback (most recent call last):\n",
    b"[2026-99-99 99:99:99] ",
    b"[2026-04-24 06:29:19] server_args=ServerArgs(tp_size='x', dp_size=[1], pp_size=None, nnodes=0, base_gpu_id=-9, host=b'x', port=1e999, model_path=['a'], api_key='geheim')\n",
    b"[2026-04-24 06:29:19] server_args={'model_path': {'a': (1, 2)}, 'chunked_prefill_size': [1], 'offload_group_size': 'x'}\n",
    b'  File "x.py", line 1, in f\n',
    b"ValueError: \xff\xfe\x00\n",
    b"During handling of the above exception, another exception occurred:\n\n",
    b"usage: sglang serve [--a]\n",
    b"sglang serve: error: unrecognized arguments: --tpp=\n",
    b"sglang serve: error: argument --tp: invalid choice: '' (choose from )\n",
    b"sglang serve: error: ambiguous option: -- could match \n",
    b"[offloader] offload module_index=1 submodule=x params=[] memory_allocated=5\n",
    b"[2026-04-24 06:29:19] Load weight begin. avail mem=-1 GB\n",
    b"[2026-04-24 06:29:19] Decode batch, #running-req: 0, #token: nan, gen throughput (token/s): 0, #queue-req: 5\n"
    * 50,
    b'INFO:     1.1.1.1:1 - "GET /health HTTP/1.1" 503 x\n',
    b"[1.000000] Out of memory: Killed process 1 (sglang) anon-rss:5kB\n",
    b"NVRM: Xid (x): 79, pid=1\n",
    b"Exit code: -9\n",
    b"CUDA_VISIBLE_DEVICES=,,-1,\n",
    b"$ sglang serve --model-path 'm --tp\n",
    b"(A pid=1) ",
    b"a-1  | ",
    b"> ",
    b"```\n",
    b"7:",
    b"gpu-7 srv: ",
    b'"',
    b'{"log":"[2026-04-24 06:29:19] \\ud83d\\',
    b"  File &quot;x&quot;, line 1, in f\n",
    b"^[[31m[0m",
    b"\\n[2026-04-24 06:29:19] ",
    b"[1777012159.123456 TP1] ",
    b'  File "' + b"x" * 71 + b'\ny", line 1, in f\n',
    b"\r",
    b"\x1b[31m",
    b"\0",
    b"\xe2\x80\xae",
    b"Receive: obj=",
]
PIECES = st.sampled_from(LINES) | st.sampled_from(HOSTILE) | st.binary(max_size=30)
TEXTS = st.lists(PIECES, max_size=40).map(b"".join)


@st.composite
def mutated(draw: st.DrawFn) -> bytes:
    """A real log that was cut, whose lines were moved, and into which something was put."""
    lines = draw(st.sampled_from(LOGS)).splitlines(keepends=True)
    begin = draw(st.integers(0, len(lines) - 1))
    lines = lines[begin : begin + draw(st.integers(1, 80))]
    if draw(st.booleans()):
        lines = draw(st.permutations(lines))
    for _ in range(draw(st.integers(0, 4))):
        lines.insert(draw(st.integers(0, len(lines))), draw(PIECES))
    data = b"".join(lines)
    if draw(st.booleans()):
        data = data.replace(b"\n", draw(st.sampled_from([b" ", b"", b"\r\n", b"\r"])))
    at = draw(st.integers(0, len(data)))
    return data[:at] + draw(st.binary(max_size=8)) + data[at + draw(st.integers(0, 30)) :]


def refuse(constant: str) -> float:
    raise ValueError(f"not JSON: {constant}")


def check(data: bytes, question: Question | None = None) -> None:
    report = explain_bytes(("server.log", data), question=question)
    for form in ("text", "json", "markdown"):
        shown = load_renderer(form).render(report, Target())
        assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202e]", shown)
        assert "geheim" not in shown
        if form == "json":
            assert json.loads(shown, parse_constant=refuse)["verdict"] == report.verdict
    assert exit_code(report, "warning") in (0, 1)
    assert (report.root is not None) == (report.verdict == "failure")


@settings(max_examples=60, deadline=None)
@given(st.binary(max_size=2000))
def test_random_bytes(data: bytes) -> None:
    check(data)


@settings(max_examples=120, deadline=None)
@given(TEXTS)
def test_mixture_of_real_and_hostile_lines(data: bytes) -> None:
    check(data)


@settings(max_examples=120, deadline=None)
@given(mutated())
def test_mutated_real_log(data: bytes) -> None:
    check(data)


@settings(max_examples=60, deadline=None)
@given(mutated() | TEXTS, st.integers(1, 300), st.sampled_from(["server.log", "issue.md"]))
def test_answer_does_not_depend_on_chunks(data: bytes, size: int, name: str) -> None:
    assert as_document(explain_bytes((name, data), chunk=size)) == as_document(explain_bytes((name, data)))


@pytest.mark.parametrize("size", [1, 7, 1000, 65_536])
@pytest.mark.parametrize("path", sorted(FIXTURES.glob("seed/*.log")), ids=lambda path: path.stem)
def test_answer_on_a_real_log_does_not_depend_on_chunks(path: Path, size: int) -> None:
    data = path.read_bytes()
    assert as_document(explain_bytes(("x", data), chunk=size)) == as_document(explain_bytes(("x", data)))


def test_answer_on_a_long_log_does_not_depend_on_chunks() -> None:
    decode = b"[2026-04-24 06:%02d:%02d TP0] Decode batch, #running-req: %d, #token: 2723, token usage: 0.00, cuda graph: True, gen throughput (token/s): 531.33, #queue-req: 0\n"
    data = LOGS[0] + b"".join(decode % (number // 300, number % 60, number % 17) for number in range(12_000)) + LOGS[1]
    documents = [as_document(explain_bytes(("x", data), chunk=size)) for size in (4000, 65_536, len(data))]
    assert documents[0] == documents[1] == documents[2]


@settings(max_examples=60, deadline=None)
@given(st.lists(mutated() | TEXTS, min_size=1, max_size=4))
def test_several_files(files: list[bytes]) -> None:
    report = explain_bytes(*((f"{number}.log", data) for number, data in enumerate(files)))
    assert [file.bytes for file in report.files] == [len(data) for data in files]
    assert all(item.file < len(files) for diagnosis in report.diagnoses for item in diagnosis.evidence)


@settings(max_examples=80, deadline=None)
@given(
    mutated(),
    st.text(max_size=200)
    | st.sampled_from(
        [
            "sglang serve --model-path m --tp 8 \\\n",
            "docker run -e A=1 img sglang serve --model m",
            "~/x serve --context 1 --",
        ]
    ),
)
def test_any_command_beside_any_log(data: bytes, command: str) -> None:
    try:
        check(data, Question(command))
    except DoctorError as error:
        assert error.message  # noqa: PT017 - refusing is fine, crashing is not


@settings(max_examples=60, deadline=None)
@given(
    data=st.binary(max_size=500)
    | st.text(max_size=300).map(str.encode)
    | st.recursive(
        st.none() | st.text(max_size=20) | st.integers(),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(st.sampled_from(["choices", "message", "content", "text", "x"]), inner, max_size=3)
        ),
    )
    .map(json.dumps)
    .map(str.encode)
)
def test_any_response(data: bytes, tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.getbasetemp() / "response"
    path.write_bytes(data)
    try:
        facts = read_response_facts(str(path))
    except DoctorError:
        return
    check(b"", Question(facts=facts))


# what carried the log here does not change the answer


def prefix(text: str):
    return lambda data: b"".join(text.encode() + line for line in data.splitlines(keepends=True))


CARRIERS = {
    "CRLF": lambda data: data.replace(b"\n", b"\r\n"),
    "UTF-8 with a mark": lambda data: b"\xef\xbb\xbf" + data,
    "docker compose": prefix("sglang-1  | "),
    "docker compose, blank lines bare": lambda data: prefix("sglang-1  | ")(data).replace(b"| \n", b"|\n"),
    "kubectl --prefix": prefix("[pod/sglang-0/server] "),
    "kubectl --timestamps": prefix("2026-04-24T06:29:19.123456789Z "),
    "containerd": prefix("2026-04-24T06:29:19.123456789Z stderr F "),
    "journald": prefix("Apr 24 06:29:19 gpu-7 sglang[1234]: "),
    "Ray": prefix("(SGLangEngine pid=4123, ip=10.0.0.7) "),
    "torchrun": prefix("[rank0]: "),
    "quoted": prefix("> "),
    "quoted twice": prefix("> > "),
    "issue": lambda data: (
        b"### Bug\n\nIt says `CUDA out of memory` and torch.cuda.OutOfMemoryError sometimes.\n\n```shell\n"
        + data
        + b"\n```\n\nThanks!\n"
    ),
    "issue, quoted": lambda data: b"> **Bug**\n> \n> ```\n" + prefix("> ")(data) + b"\n> ```\n",
    "issue, in a list": lambda data: b"1. start it\n\n   ```\n" + prefix("   ")(data) + b"\n   ```\n",
    "indented": prefix("    "),
    "coloured": lambda data: b"".join(b"\x1b[33m" + line.rstrip(b"\n") + b"\x1b[0m\n" for line in data.splitlines()),
    "NULs of a truncated file before it": lambda data: bytes(5000) + data,
    "milliseconds": lambda data: re.sub(rb"(\[20\d\d-\d\d-\d\d \d\d:\d\d:\d\d)", rb"\1.123", data),
    "pasted into one line": lambda data: b" ".join(line.strip() for line in data.splitlines()),
}


@pytest.mark.parametrize("carrier", CARRIERS)
@pytest.mark.parametrize(
    ("name", "root"),
    [("no_accelerator", "GPU001"), ("invalid_device_ordinal", "GPU002"), ("offload_ram_exhausted", "HOST001")],
)
def test_carrier_does_not_change_the_answer(name: str, root: str, carrier: str) -> None:
    data = (FIXTURES / f"seed/{name}.log").read_bytes()
    report = explain_bytes(("issue.md" if "issue" in carrier else "server.log", CARRIERS[carrier](data)))
    assert report.root is not None
    assert report.root.rule == root

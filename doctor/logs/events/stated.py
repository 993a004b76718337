"""Facts that a line states outright: GPU names, visible devices, versions, the user's own launch command."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from doctor.logs.events.types import Said
from doctor.logs.records import Record


class _Fact(NamedTuple):
    """A fact's name for rules, a keyword that announces it, and the pattern whose first group is its value."""

    name: str
    keyword: bytes
    pattern: re.Pattern[str]


def _fact(name: str, keyword: str, pattern: str) -> _Fact:
    return _Fact(name, keyword.encode(), re.compile(pattern))


_VERSION = r"\d{1,4}\.\d{1,6}[\w.+]{0,40}"
_FACTS = (
    _fact("gpu.name", "GPU: ", r"\bGPU: (NVIDIA [\w .-]{3,60}|AMD [\w .-]{3,60})\s*$"),
    _fact("gpu.name", "device_name=", r"device_name=([A-Za-z0-9_.-]{3,60}?)(?:_down)?[.,]"),
    _fact("gpu.capability", "ompute capability", r"[Cc]ompute capability: (\d{1,3}(?:\.\d{1,3})?)"),
    _fact("gpu.capability", "CUDA capability sm_", r"with CUDA capability sm_(\d{1,4})"),
    _fact("gpu.total_gib", "has a total capacity of", r"has a total capacity of (\d{1,6}(?:\.\d{1,6})?) GiB"),
    _fact(
        "env.CUDA_VISIBLE_DEVICES",
        "CUDA_VISIBLE_DEVICES",
        r"""CUDA_VISIBLE_DEVICES'?\)?=(?!None\b)['"]?([\w,/:.-]{0,1000})(?=['"\s;&|)]|$)""",
    ),
    _fact("torch.version", "PyTorch version", rf"The PyTorch version \(({_VERSION})\)"),
    _fact("torch.version", "torch==", rf"\btorch==({_VERSION})"),
    _fact("sglang.version", "sglang==", rf"\bsglang==({_VERSION})"),
    _fact("sglang.version", "sglang: ", rf"^sglang: ({_VERSION})"),
    _fact("sglang.version", "SGLang version", r"SGLang [Vv]ersion:? v?(\d{1,4}\.\d{1,6}\.\d{1,6}[\w.]{0,40})"),
    _fact("sglang.version", "sglang:v", r"lmsysorg/sglang:v(\d{1,4}\.\d{1,6}\.\d{1,6}(?:\.?post\d{1,4})?)"),
    _fact("torch.version", "PyTorch: ", rf"^PyTorch: ({_VERSION})"),
    _fact("driver.version", "CUDA Driver Version", r"CUDA Driver Version: ([\d.]{1,20})"),
    _fact("driver.cuda", "found version ", r"\(found version (\d{1,9})\)"),
    _fact("model.layers", "num_hidden_layers=", r"num_hidden_layers=(\d{1,6})\b"),
    _fact("model.unsupported", "Model architectures", r"Model architectures \['(\w+)'"),
    _fact("model.unsupported", "Cannot find model module", r"Cannot find model module\. '(\w+)'"),
    _fact("http.url", "Uvicorn running on", r"Uvicorn running on (\S{1,300})"),
    _fact("main.pid", "Started server process", r"Started server process \[(\d{1,10})\]"),
    _fact(
        "command",
        "sglang",
        r"^(?:[\w.-]{1,64}@[\w.-]{1,64}:[^\s$#]{0,200}[$#] |[$#] )?"
        r"(.*?\b(?:sglang\.launch_server|sglang serve|sglang-[\w-]{1,40} serve)\b.*)$",
    ),
)

KEYWORDS = tuple(dict.fromkeys(fact.keyword for fact in _FACTS))

_NOT_A_COMMAND = (
    "is still supported",
    'File "',
    "Example:",
    "usage:",
    ": error:",
    "import ",
    "Traceback",
    "server_args=",
    "prog=",
)


def parse(record: Record) -> Iterator[Said]:
    """Yield every fact the record's lines state."""
    if record.kind in ("server_args", "progress", "usage"):
        return
    for number, text in record.lines[:700]:
        for fact in _FACTS:
            if fact.keyword.decode() in text and (found := fact.pattern.search(text[:4000])):
                if fact.name == "command" and any(word in text for word in _NOT_A_COMMAND):
                    continue
                yield Said(record._replace(lines=((number, text),)), fact.name, _value(fact.name, found[1].strip()))


def _value(name: str, text: str) -> str | int | float:
    if name == "gpu.total_gib":
        return float(text)
    return int(text) if name in ("model.layers", "main.pid", "driver.cuda") else text

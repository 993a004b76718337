"""torchcodec's text about FFmpeg libraries that do not load: 100 to 200 lines that matter only for audio and video."""

from __future__ import annotations

import re
from collections.abc import Iterator

from doctor.logs.events.types import CodecProbe
from doctor.logs.records import Record

KEYWORDS = (b"Could not load libtorchcodec", b"libtorchcodec_core")

_MODULE = re.compile(r"Ignore import error when loading ([\w.]{1,200}):")
_MISSING = re.compile(r"\b(lib(?:av|sw)\w{1,20}\.so\.\d{1,4}): cannot open shared object")
_TORCH = re.compile(r"The PyTorch version \(([\w.+]{1,60})\)")


def parse(record: Record) -> Iterator[CodecProbe]:
    """Yield the whole text as one event."""
    text = record.text
    if "Could not load libtorchcodec" not in text:
        return
    module, torch = _MODULE.search(text), _TORCH.search(text)
    missing = tuple(dict.fromkeys(_MISSING.findall(text)))
    yield CodecProbe(record, module[1] if module else "", missing, torch[1] if torch else None)

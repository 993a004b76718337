"""Tell the first line of a record from a line that continues the one before it."""

from __future__ import annotations

import re

from doctor.logs.kinds import ECHO, Numbered

_HEAD = re.compile(
    rb"""
    \[20\d\d[-/]\d\d[-/]\d\d[\sT]\d\d:\d\d:\d\d              # SGLang, with other formats of the time
    | \[1\d{9}(?:\.\d{1,9})?[\s\]]                         # seconds since 1970
    | \[\d\d-\d\d\s\d\d:\d\d:\d\d                        # sglang multimodal_gen
    | \[\d\d:\d\d:\d\d\b                                 # 0.3 and older
    | \[(?:gpu=|DP|PP|ATTN_CP|MOE_DP|TP|EP)\d
    | (?:DEBUG|INFO|WARNING|ERROR|CRITICAL)[:\s]         # uvicorn, logging defaults, vLLM
    | 20\d\d-\d\d-\d\d[\sT]\d\d:\d\d:\d\d                # loguru, logging
    | [IWEF]\d{4}\s\d\d:\d\d:\d\d                        # glog (Mooncake), torch
    | \[[IWEF]\d{3,4}\s                                  # c10
    | \[[A-Z][a-z]{2}\s[A-Z][a-z]{2}\s[\s\d]\d\s\d\d:    # dmesg -T
    | \[\s*\d+\.\d{6}\]\s                                # dmesg
    | usage:\s
    | (?:Decode|Prefill)\sbatch[\[,.\s]                  # time stamps stripped
    | \S+:\d+:\d+\s\[\d+\]\sNCCL\s                       # NCCL
    """,
    re.VERBOSE,
)
DUMP = re.compile(rb".{0,190}?\bserver_args=(?:ServerArgs\(|\{)")
"""How a `server_args=` dump begins."""

_CHAIN = (b"During handling of the above exception", b"The above exception was the direct cause")


def starts_record(piece: bytes, lines: list[Numbered]) -> bool:
    """True when a line begins a record of its own rather than continuing the open one."""
    if piece[:1] != b" " and _HEAD.match(piece):
        return True
    if lines[0][1] is ECHO:
        return False
    if _ends_dump(lines):
        return True
    if b' HTTP/1.1" ' in lines[0][1] and piece[:1] not in (b" ", b"\t", b""):
        return True  # an access line is one line
    if piece[:1] == b" ":
        return _is_warning_end(lines)
    if piece.startswith(b"Traceback (most recent call last)"):
        return not _expects_traceback(lines)
    if piece.startswith((b"Killed", b"Process ", b"Fatal Python error:", b"terminate called")):
        return True
    return _is_warning(piece) or _is_warning_end(lines)


def _ends_dump(lines: list[Numbered]) -> bool:
    """True when the open record is a complete dump; the parts of one that a terminal broke are equally long."""
    first, last = lines[0][1], lines[-1][1]
    broken = len(lines) > 1 and len(last) == len(first)
    return last.rstrip().endswith((b")", b"}")) and not broken and DUMP.match(first) is not None


def _expects_traceback(lines: list[Numbered]) -> bool:
    """True when the last lines announce a traceback: a chain text, or a message that ends in a colon."""
    for _, line in reversed(lines[-3:]):
        if line.strip():
            return line.startswith((*_CHAIN, b"[start of")) or line.rstrip().endswith((b":", b"occurred"))
    return False


def _is_warning(piece: bytes) -> bool:
    """True for the first line of `warnings.warn` output: PATH:LINE: SomeWarning: text."""
    at = piece.find(b"Warning: ", 0, 400)
    return at > 0 and re.match(rb"\S+:\d+: \w*$", piece[:at]) is not None


def _is_warning_end(lines: list[Numbered]) -> bool:
    """True when the open record is a `warnings.warn` message whose indented source line has been read."""
    return len(lines) > 1 and lines[-1][1].startswith(b"  ") and _is_warning(lines[0][1])

"""Find SGLang among the words of a command: its entry point, or the quoted script that has it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise

from doctor.launch.model import Word

_PYTHON = re.compile(r"(?:python[\d.]*|pypy3?)(?:\.exe)?")
_SHELL = re.compile(r"(?:ba|z|da|k)?sh")
# Modules that start a server, or take a server's arguments to start one inside (0.5.23).
_MODULE = re.compile(
    r"sglang(?:\.launch_server|\.cli\.main|\.srt\.\w{1,40}(?:\.http_server)?)?|sglang_router\.launch_server"
    r"|dynamo\.sglang(?:\.\w{1,40})?|sglang\.(?:bench_one_batch|bench_one_batch_server|bench_offline_throughput"
    r"|compile_deep_gemm)"
)
# Modules of SGLang that are no server, and vLLM's.
_OTHER_MODULE = re.compile(r"(?:sglang(?:_router)?|vllm)(?:\.\w{1,40}){1,6}")
_JOINING = frozenset({"ssh", "pdsh", "clush", "watch"})
# Programs that only talk of a launch, and servers of another kind.
_TALKING = frozenset({"pkill", "pgrep", "grep", "rg", "echo", "printf", "killall"})
_OTHER_SERVERS = frozenset(
    {
        "vllm",
        "ollama",
        "xinference",
        "lmdeploy",
        "llama-server",
        "text-generation-launcher",
        "tritonserver",
        "trtllm-serve",
    }
)
# A launch inside a quoted word: `tmux new "python -m sglang..."`, `ssh host '...'`, `sbatch --wrap="..."`.
_LAUNCH = re.compile(
    r"(?:^|[\s;&|(/='\"])(?:sglang\s+serve|-m\s+(?:dynamo\.)?sglang|\S{0,200}launch_server\.py)(?:[\s.]|$)"
)


def name_program(value: str) -> str:
    """Return the name of a program without its folder, on Windows too."""
    return re.split(r"[/\\]", value)[-1]


def find_entry(words: Sequence[Word]) -> tuple[int, int] | None:
    """Return where the entry point begins and ends among the words."""
    values = [word.value for word in words]
    if values and name_program(values[0]) in _TALKING:
        return None
    for at, value in enumerate(values):
        follower = values[at + 1] if at + 1 < len(values) else ""
        if follower in {"serve", "launch_server"} and name_program(value).removesuffix(".exe") == "sglang":
            return at, at + 2
        if value == "-m" and _MODULE.fullmatch(follower):
            end = at + 3 if follower == "sglang" and values[at + 2 : at + 3] == ["serve"] else at + 2
            return find_interpreter(values, at), end
        if value.endswith(("launch_server.py", "sglang.launch_server")) and value[0] != "-" and " " not in value:
            return find_interpreter(values, at), at + 1
    return None


def find_interpreter(values: Sequence[str], at: int) -> int:
    """Return the index of the Python that runs the module at `at`, with only options in between."""
    start = at
    while start > 0 and values[start - 1].startswith("-"):
        start -= 1
    return start - 1 if start > 0 and _PYTHON.fullmatch(name_program(values[start - 1])) else at


def find_other_program(words: Sequence[Word]) -> str:
    """Return the other server that is started, or the module of SGLang that is no server; "" without one."""
    first, *others = (name_program(word.value) for word in words[:2])
    if first in _OTHER_SERVERS or (first == "sglang" and others and not has_entry(words)):
        return " ".join([first, *others]) if first == "sglang" else first
    names = (name.value for option, name in pairwise(words) if option.value == "-m")
    return next((name for name in names if _OTHER_MODULE.fullmatch(name) and not _MODULE.fullmatch(name)), "")


def find_script(words: Sequence[Word]) -> int | None:
    """Return the index of the script in `bash -c SCRIPT`, else of a quoted word that launches SGLang."""
    for at in range(len(words) - 2):
        option = words[at + 1].value
        if _SHELL.fullmatch(name_program(words[at].value)) and re.fullmatch(r"-[a-z]*c", option):
            return at + 2
    return next((at for at, word in enumerate(words) if is_script(word.value)), None)


def is_script(value: str) -> bool:
    """Tell whether one word holds a whole launch command."""
    return len(value.split(None, 2)) > 2 and not value.startswith(("$", "`")) and _LAUNCH.search(value) is not None


def find_joining(words: Sequence[Word]) -> int | None:
    """Return the index of a wrapper that joins its words to a line for a second shell (`ssh HOST WORD...`)."""
    entry = find_entry(words)
    before = words[: entry[0]] if entry else ()
    return next((at for at, word in enumerate(before) if name_program(word.value) in _JOINING), None)


def has_entry(words: Sequence[Word]) -> bool:
    """Tell whether the words name an entry point of SGLang."""
    return find_entry(words) is not None


def has_inner(words: Sequence[Word]) -> bool:
    """Tell whether a word holds a script that names SGLang."""
    at = find_script(words) if name_program(words[0].value) not in _TALKING else None
    return at is not None and ("sglang" in words[at].value or "--model" in words[at].value)

"""Write down what a sick server looks like before anything ends it: one folder, redacted, capped."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from doctor.redact import clean
from doctor.watch.model import Answer, Fault
from doctor.watch.tree import Member

KEPT_FOLDERS = 10
MOST_BYTES = 2 << 20
"""Of each file; the stacks of one rank take 20 to 60 kB."""

STACK_SECONDS = 6.0
"""For py-spy at one process; `--native` of a scheduler with CUDA takes 2 to 4 s."""

TOTAL_SECONDS = 15.0
_MOST_PROCESSES = 24
_TAIL_LINES = 60


class Scene(NamedTuple):
    """What is looked at: the fault, processes, the end of the output, memory and GPUs in words, the kernel's log."""

    fault: Fault
    members: tuple[Member, ...]
    output: bytes
    memory: str
    gpus: str
    kernel: bytes
    environment: Mapping[str, str]
    program: str
    ask: Callable[[], Answer | None]


def find_base(given: str | None, log_folder: str | None, environment: Mapping[str, str]) -> str:
    """Give the folder for evidence folders: as asked, beside the log, else the user's state folder."""
    if given:
        return given
    if log_folder:
        return os.path.join(log_folder, "evidence")
    home = environment.get("XDG_STATE_HOME") or os.path.join(os.path.expanduser("~"), ".local", "state")
    return os.path.join(home, "sglang-doctor", "evidence")


def collect(base: str, scene: Scene) -> str:
    """Write the evidence; give the folder, or "" when nothing could be written."""
    deadline = time.monotonic() + TOTAL_SECONDS
    folder = os.path.join(base, f"{time.strftime('%Y%m%d-%H%M%S')}-{scene.fault.kind}-{scene.fault.pids[:1] or ''}")
    folder = folder.replace("(", "").replace(",)", "").rstrip("-")
    try:
        os.makedirs(folder, mode=0o700, exist_ok=True)
    except OSError:
        return ""
    _write(folder, "fault.txt", f"{scene.fault.kind}: {scene.fault.words}\n")
    _write(folder, "processes.txt", describe_processes(scene.members))
    _write(folder, "memory.txt", scene.memory)
    _write(folder, "output.txt", group_by_rank(scene.output))
    _write(folder, "gpus.txt", scene.gpus)
    _write(folder, "kernel.txt", scene.kernel.decode("utf-8", "replace"))
    for member in choose_members(scene.members, scene.fault):
        if time.monotonic() < deadline:
            _write(folder, f"stack-{member.pid}.txt", take_stack(member, scene, deadline))
    answer = scene.ask() if time.monotonic() < deadline else None
    _write(folder, "server_info.txt", _describe_answer(answer))
    prune(base)
    return folder


def _describe_answer(answer: Answer | None) -> str:
    if answer is None:
        return ""
    body = answer.body.decode("utf-8", "replace")
    return f"HTTP {answer.status} after {answer.seconds:.1f} s {answer.reason}\n{body}\n"


def choose_members(members: Iterable[Member], fault: Fault) -> list[Member]:
    """List the processes whose stacks tell most: those of the fault, the ranks, then the main process."""
    alive = [member for member in members if member.is_alive and "resource_tracker" not in member.title]
    ordered = sorted(alive, key=lambda member: (member.pid not in fault.pids, not member.is_worker, member.pid))
    return ordered[:_MOST_PROCESSES]


def take_stack(member: Member, scene: Scene, deadline: float) -> str:
    """Run py-spy at one process, with native frames if it can, and say why when it cannot."""
    tool = find_py_spy(scene.environment, scene.program)
    head = f"{member.title} (pid {member.pid}, state {member.stat.state})\n"
    if not tool:
        return f"{head}py-spy is not installed beside the server or the doctor: pip install py-spy\n"
    # a stopped process cannot be paused again, so it is read as it stands
    still = ["--nonblocking"] if member.stat.state in ("T", "t") else []
    said = ""
    for native in (["--native"], []) if not still else ([],):
        seconds = min(STACK_SECONDS, deadline - time.monotonic())
        if seconds <= 0:
            break
        done = _run([tool, "dump", "--pid", str(member.pid), *native, *still], seconds)
        if done.startswith("ok\n"):
            return head + done[3:]
        said += done
    hint = "ptrace is not permitted here (docker run --cap-add SYS_PTRACE)\n" if "ermission" in said else ""
    return f"{head}{hint}{said}"


def find_py_spy(environment: Mapping[str, str], program: str) -> str | None:
    """Find py-spy beside the server's program, beside this Python, or on PATH."""
    beside = [
        os.path.dirname(shutil.which(program, path=environment.get("PATH")) or ""),
        os.path.dirname(sys.executable),
    ]
    return shutil.which("py-spy", path=os.pathsep.join([*filter(None, beside), environment.get("PATH", "")]))


def _run(argv: Sequence[str], seconds: float) -> str:
    """Give "ok" and the output, or what went wrong."""
    try:
        done = subprocess.run(list(argv), capture_output=True, timeout=seconds, check=False, stdin=subprocess.DEVNULL)
    except subprocess.TimeoutExpired:
        return f"py-spy gave no answer within {seconds:.0f} s\n"
    except OSError as error:
        return f"py-spy did not start: {error.strerror}\n"
    text = done.stdout[:MOST_BYTES].decode("utf-8", "replace")
    return f"ok\n{text}" if done.returncode == 0 else done.stderr[:2000].decode("utf-8", "replace")


def describe_processes(members: Iterable[Member]) -> str:
    """Give state, threads, memory and kernel wait of every process."""
    parts = []
    for member in members:
        status = _read(f"/proc/{member.pid}/status", 4096)
        wait = _read(f"/proc/{member.pid}/wchan", 200)
        stack = _read(f"/proc/{member.pid}/stack", 2000)
        stat = member.stat
        parts.append(
            f"== pid {member.pid} {member.title}\nparent {stat.parent} state {stat.state} cpu {stat.cpu:.1f} s "
            f"rss {stat.rss >> 20} MiB wait {wait}\n{status}{stack}\n"
        )
    return "".join(parts)


def group_by_rank(output: bytes) -> str:
    """Give the last lines of each rank from the end of the output."""
    from doctor.logs.lines import clean_bytes
    from doctor.logs.records import RawRecord, parse_record

    ranks: dict[str, list[str]] = {}
    for line in clean_bytes(output).split(b"\n")[1:]:
        rank = parse_record(RawRecord("", [(0, line)]), 0).rank or "no rank"
        ranks.setdefault(rank, []).append(line.decode("utf-8", "replace")[:2000])
    return "".join(
        f"== {rank}\n" + "\n".join(lines[-_TAIL_LINES:]) + "\n" for rank, lines in sorted(ranks.items())[:64]
    )


def prune(base: str) -> None:
    """Keep the newest folders; names begin with the time."""
    with contextlib.suppress(OSError):
        names = sorted(name for name in os.listdir(base) if name[:8].isdecimal() and name[8:9] == "-")
        for name in names[:-KEPT_FOLDERS]:
            shutil.rmtree(os.path.join(base, name), ignore_errors=True)


def _write(folder: str, name: str, text: str) -> None:
    if text.strip():
        with contextlib.suppress(OSError), open(os.path.join(folder, name), "w", encoding="utf-8") as stream:
            # cut twice: cleaning takes time by size, and a secret cut in half might not be recognised
            stream.write(clean(text[: 2 * MOST_BYTES])[:MOST_BYTES])


def _read(path: str, limit: int) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as stream:
            return stream.read(limit)
    except OSError:
        return ""

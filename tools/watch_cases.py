"""Faults for tools/watch_faults.py: what each does to a started server, and what the doctor should say of it."""

from __future__ import annotations

import concurrent.futures
import contextlib
import os
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from measure_memory import latent, llama, moe, write_model

from tests.e2e.watched import HANG, Server, Setup, Watched, find_free_port, truncate_weights, wait_for_none

GPU_FLAGS = (
    *("--attention-backend", "triton", "--sampling-backend", "pytorch", "--grammar-backend", "none"),
    *("--mem-fraction-static", "0.4", "--max-total-tokens", "65536"),
)
"""The recording machine's kernel package has no FlashAttention 3; several servers share its GPU."""

OFFLOAD = (
    *("--load-format", "dummy", "--offload-group-size", "1", "--offload-num-in-group", "1"),
    *(
        "--offload-prefetch-step",
        "1",
        "--disable-cuda-graph",
        "--disable-radix-cache",
        "--disable-shared-experts-fusion",
    ),
)
BLOCKS = ("--load-format", "dummy", "--cpu-offload-gb", "10", "--disable-cuda-graph")
LIMIT_GIB = 9
KEPT_GIB = 8
NEVER = ("--restart", "never")
KEEP = """\
import os, signal, socket
def keep(*_):
    from cuda.bindings import driver
    wanted = driver.CUmemAllocationProp()
    wanted.type = driver.CUmemAllocationType.CU_MEM_ALLOCATION_TYPE_PINNED
    wanted.location.type = driver.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE
    kind = driver.CUmemAllocationHandleType.CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR
    wanted.requestedHandleTypes = kind
    error, handle = driver.cuMemCreate(int(os.environ["DOCTOR_TEST_KEEP"]), wanted, 0)
    error, shared = driver.cuMemExportToShareableHandle(handle, kind, 0)
    with socket.socket(socket.AF_UNIX) as link:
        link.connect(os.environ["DOCTOR_TEST_SOCKET"])
        socket.send_fds(link, [b"x"], [int(shared)])
signal.signal(signal.SIGUSR2, keep)
"""


_MAKING = threading.Lock()


class Setting(NamedTuple):
    """Where things are."""

    out: Path
    setup: Setup
    model: Path


class Case(NamedTuple):
    """A fault: what is done to a started server, the rules that may name it, and the doctor's exit code.

    `alone` is how many seconds the plain server is watched after the blow (0: not run alone). With `held`, another
    program holds the GPU meanwhile.
    """

    name: str
    title: str
    act: Callable[[Server, Setting], None]
    rules: tuple[str | None, ...]
    codes: tuple[int, ...]
    alone: float = 60.0
    held: bool = False


def ready(server: Server, _: Setting) -> None:
    """200 requests, then SIGTERM."""
    listen = find_free_port()
    server.start(*NEVER, "--listen", str(listen)).wait_until_ready()
    begin = time.monotonic()
    with concurrent.futures.ThreadPoolExecutor(8) as clients:
        require(set(clients.map(lambda _: server.generate(), range(200))) == {200}, "200 answers")
    note(server, f"200 requests in {time.monotonic() - begin:.1f} s")
    if isinstance(server, Watched):
        (server.folder / "metrics.txt").write_bytes(server.ask("/metrics", 5.0, port=listen)[1])
    server.signal(signal.SIGTERM)


def kill(title: str, number: int) -> Callable[[Server, Setting], None]:
    """Send a signal to one process while requests run."""

    def act(server: Server, _: Setting) -> None:
        server.start(*NEVER).wait_until_ready().keep_busy()
        server.strike(title, number)

    return act


def deadlock(server: Server, _: Setting) -> None:
    """The scheduler waits for a kernel that never ends."""
    (server.folder / "sitecustomize.py").write_text(HANG)
    server.start(*NEVER, env=lead_path(server.folder)).wait_until_ready().keep_busy()
    server.strike("sglang::scheduler", signal.SIGUSR2)


def take_port(server: Server, _: Setting) -> None:
    """Another program listens on the port."""
    listener = socket.create_server(("127.0.0.1", server.port))
    server.start(*NEVER)
    wait_for_text(server, "address already in use")
    server.injected = time.time()
    threading.Thread(target=close_after, args=(listener, server), daemon=True).start()


def close_after(listener: socket.socket, server: Server) -> None:
    """Give the port back once the server is gone, or has been looked at for long enough."""
    with contextlib.suppress(subprocess.TimeoutExpired):
        server.running.wait(88)
    listener.close()


def misspell(server: Server, _: Setting) -> None:
    """A flag is misspelt; the doctor may mend it."""
    server.start("--apply", "safe", flags=("--max-runing-requests", "64"))
    finish_mended(server)


def finish_mended(server: Server) -> None:
    """Wait for the corrected command to serve, and stop it."""
    if isinstance(server, Watched):
        server.wait_until_ready()
        note(server, f"mended, serves after {time.time() - server.injected:.1f} s")
        require(server.generate() == 200, "an answer")
        server.running.send_signal(signal.SIGTERM)


def truncate(server: Server, setting: Setting) -> None:
    """The weights are cut in half."""
    server.model = truncate_weights(setting.model, server.folder)
    server.start()


def stop_in_load(server: Server, setting: Setting) -> None:
    """SIGTERM while weights are read."""
    server.model = make_model(setting, "dense8b", llama(4096, 14336, 32, 32, 8))
    server.start(*NEVER, flags=("--load-format", "dummy"))
    wait_for_text(server, "Load weight begin")
    server.signal(signal.SIGTERM)


def stop_busy(server: Server, _: Setting) -> None:
    """SIGTERM while requests run; no new ones are sent, as behind a load balancer."""
    server.start(*NEVER).wait_until_ready().keep_busy()
    server.sending = False
    server.signal(signal.SIGTERM)


def kill_doctor(server: Server, _: Setting) -> None:
    """SIGKILL to the doctor."""
    server.start(*NEVER).wait_until_ready()
    server.signal(signal.SIGKILL)
    left = wait_for_none(server.mark, 15)
    note(server, f"{len(left)} processes left {time.time() - server.injected:.1f} s later")


def lose_proxy(server: Server, _: Setting) -> None:
    """A proxy that swallows the server's request to itself."""
    names = dict.fromkeys(("HTTP_PROXY", "http_proxy"), "http://127.0.0.1:9")
    server.start("--apply", "safe", env={**names, "NO_PROXY": "", "no_proxy": ""})
    wait_for_text(server, "Uvicorn running")
    server.injected = time.time()
    finish_mended(server)


def meet_held_gpu(*options: str) -> Callable[[Server, Setting], None]:
    """Another program holds all but 12 GiB of the GPU (see `hold_gpu`); the model needs 16."""

    def act(server: Server, setting: Setting) -> None:
        server.model = make_model(setting, "dense8b", llama(4096, 14336, 32, 32, 8))
        server.start(*NEVER, *options, flags=("--load-format", "dummy"))

    return act


def keep_memory(server: Server, _: Setting) -> None:
    """Memory of the killed scheduler stays in use for 20 s, held by nobody that NVML could name."""
    (server.folder / "sitecustomize.py").write_text(KEEP)
    path = str(server.folder / "keep")
    with socket.socket(socket.AF_UNIX) as link:
        link.bind(path)
        link.listen(1)
        variables = {"DOCTOR_TEST_KEEP": str(KEPT_GIB << 30), "DOCTOR_TEST_SOCKET": path}
        server.start(env={**lead_path(server.folder), **variables}).wait_until_ready().keep_busy()
        os.kill(server.find("sglang::scheduler"), signal.SIGUSR2)
        link.settimeout(30)
        with link.accept()[0] as peer:
            (kept,) = socket.recv_fds(peer, 1, 1)[1]
    time.sleep(3.0)  # a sample of the GPU must show it
    server.strike("sglang::scheduler", signal.SIGKILL)
    time.sleep(20.0)
    os.close(kept)
    released = time.time()
    begun = wait_for_second_start(server)
    note(server, f"started again {begun - released:.1f} s after the memory was given back")
    wait_for_text(server, "ready: fired up", 2)
    require(server.generate() == 200, "an answer")
    server.running.send_signal(signal.SIGTERM)
    require(begun > released, "a start after the memory was given back")


def fill_host(name: str, config: dict[str, Any], flags: tuple[str, ...]) -> Callable[[Server, Setting], None]:
    """Pinned offload in a memory cgroup (v2) that cannot hold it."""

    def act(server: Server, setting: Setting) -> None:
        server.model = make_model(setting, name, config)
        run_limited(server, flags)

    return act


def run_limited(server: Server, flags: tuple[str, ...]) -> None:
    """Start a server inside a cgroup of its own, and count the kernel's kills at its end."""
    folder = Path(f"/sys/fs/cgroup/doctor-{server.port}")
    with contextlib.suppress(OSError):
        Path("/sys/fs/cgroup/cgroup.subtree_control").write_text("+memory")
    folder.mkdir()
    (folder / "memory.max").write_text(str(LIMIT_GIB << 30))
    inside = ("sh", "-c", f'echo $$ > {folder}/cgroup.procs; exec "$@"', "sh")
    server.start(*NEVER, flags=flags, prefix=inside)
    end = time.monotonic() + 150
    while server.running.poll() is None and time.monotonic() < end:
        time.sleep(0.5)
    events = (folder / "memory.events").read_text().split()
    peak = (folder / "memory.peak").read_text() if (folder / "memory.peak").exists() else "0"
    note(server, f"oom_kill {events[events.index('oom_kill') + 1]}, peak {int(peak) / 2**30:.2f} GiB")
    with contextlib.suppress(OSError):
        folder.rmdir()


def make_model(setting: Setting, name: str, config: dict[str, Any]) -> Path:
    """Write a config and a tokenizer once; dummy weights need no more."""
    with _MAKING:
        folder = setting.out / "models" / name
        return folder if folder.exists() else write_model(folder, config)


def lead_path(folder: Path) -> dict[str, str]:
    """Put a folder with a sitecustomize.py in front of PYTHONPATH."""
    return {"PYTHONPATH": os.pathsep.join(filter(None, [str(folder), os.environ.get("PYTHONPATH")]))}


def wait_for_text(server: Server, text: str, count: int = 1, seconds: float = 240.0) -> None:
    """Wait until it was printed, or the server has ended."""
    end = time.monotonic() + seconds
    while (server.output + server.said).count(text) < count and time.monotonic() < end:
        if server.running.poll() is not None:
            return
        time.sleep(0.1)


def wait_for_second_start(server: Server) -> float:
    """Wait for the restart and give its moment."""
    end = time.monotonic() + 120
    starts: list[float] = []
    while isinstance(server, Watched) and len(starts) < 2 and time.monotonic() < end:
        starts = [row["time"] for row in server.events if row["event"] == "start"]
        time.sleep(0.1)
    return starts[1]


def require(condition: bool, what: str) -> None:
    """Raise AssertionError when something did not come."""
    if not condition:
        raise AssertionError(f"expected {what}")


def note(server: Server, text: str) -> None:
    """Keep a measurement for the row."""
    with (server.folder / "notes.txt").open("a") as stream:
        stream.write(f"{text}; ")


ENDED = (0, 137)
"""0.5.15.post1 kills itself (SIGKILL) at the end of an orderly SIGTERM, 0.5.23 on the CPU ends with 0."""

CASES = (
    Case("requests", "200 requests, then SIGTERM", ready, (None,), ENDED),
    Case("scheduler-killed", "scheduler killed (SIGKILL)", kill("sglang::scheduler", 9), ("PROC001",), (137,)),
    Case(
        "detokenizer-killed", "detokenizer killed (SIGKILL)", kill("sglang::detokenizer", 9), ("PROC001",), (137,), 100
    ),
    Case("scheduler-stopped", "scheduler stopped (SIGSTOP)", kill("sglang::scheduler", 19), ("WATCH001",), (137,), 120),
    Case("scheduler-deadlocked", "scheduler deadlocked", deadlock, ("WATCH007",), (137,), 330),
    Case("port-taken", "port taken by another program", take_port, ("NET001",), (137, 1, 3), 90),
    Case("misspelt-flag", "misspelt flag, `--apply safe`", misspell, ("ARG001",), ENDED, 30),
    Case("truncated-weights", "weights truncated", truncate, ("MOD012",), (1, 137), 60),
    Case("stopped-in-load", "SIGTERM during the load", stop_in_load, (None,), (143, 0), 30),
    Case("stopped-busy", "SIGTERM with requests in flight", stop_busy, (None,), ENDED, 90),
    Case("doctor-killed", "the doctor killed (SIGKILL)", kill_doctor, (None,), (-9,), 0),
    Case("dead-proxy", "dead proxy in the environment", lose_proxy, ("NET006",), ENDED, 180),
)
GPU_CASES = (
    Case("memory-kept", "memory of the dead server not given back", keep_memory, ("PROC001",), ENDED, 0),
    Case(
        "host-memory",
        "pinned offload above a cgroup limit",
        fill_host("latent12", latent(12), OFFLOAD),
        ("WATCH009",),
        (143, 137, 1),
        10,
    ),
    Case(
        "host-memory-gb",
        "`--cpu-offload-gb 10` above it",
        fill_host("moe16", moe(16), BLOCKS),
        ("WATCH009",),
        (143, 137, 1),
        10,
    ),
    Case("gpu-held-checked", "GPU held by another program", meet_held_gpu("--check"), (None,), (1,), 0, held=True),
    Case(
        "gpu-held", "the same, `--no-check`", meet_held_gpu(), ("MEM001", "MEM002", "GPU003"), (137, 1), 90, held=True
    ),
)

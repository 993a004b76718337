import pytest

from doctor.logs.events import kernel
from tests.helpers import FIXTURES
from tests.logs.events.helpers import parse

KILLS = {
    "dmesg -T": (
        "[Mon Nov 30 23:02:00 2026] Out of memory: Killed process 4242 (sglang::schedul) total-vm:173480060kB, anon-rss:11740kB, file-rss:130kB, shmem-rss:127000kB, UID:0",
        (4242, "sglang::schedul", "CONSTRAINT_NONE", 11740, 127000, "Mon Nov 30 23:02:00 2026"),
    ),
    "dmesg": (
        "[12345.678901] Out of memory: Killed process 7 (python3) total-vm:1kB, anon-rss:2kB, file-rss:3kB",
        (7, "python3", "CONSTRAINT_NONE", 2, 0, "12345.678901"),
    ),
    "cgroup": (
        "[12345.678901] Memory cgroup out of memory: Killed process 7 (python3) total-vm:1kB, anon-rss:2kB, file-rss:3kB, shmem-rss:4kB",
        (7, "python3", "CONSTRAINT_MEMCG", 2, 4, "12345.678901"),
    ),
    "journalctl -k": (
        "Nov 30 23:02:00 host kernel: Out of memory: Killed process 7 (python3), UID 0, total-vm:1kB, anon-rss:2kB",
        (7, "python3", "CONSTRAINT_NONE", 2, 0, None),
    ),
    "older kernel": (
        "[1.000000] Out of memory: Kill process 7 (python3) score 900 or sacrifice child",
        (7, "python3", "CONSTRAINT_NONE", 0, 0, "1.000000"),
    ),
}


@pytest.mark.parametrize(("line", "expected"), KILLS.values(), ids=KILLS)
def test_kill(line: str, expected: tuple) -> None:
    (event,) = parse(kernel, line)
    assert event[1:] == expected


def test_kills_of_a_real_kernel_log() -> None:
    other, scheduler = parse(kernel, (FIXTURES / "recordings/h200/offload_host_oom.kernel.log").read_bytes())
    assert (other.task, other.pid, other.shmem_kb) == ("python3", 754, 118615936)
    assert (scheduler.task, scheduler.pid, scheduler.anon_kb) == ("sglang::schedul", 875, 975300)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (
            "[1.5] NVRM: Xid (PCI:0000:01:00): 79, pid=1234, name=python3, GPU has fallen off the bus.".replace(
                "1.5", "12.345678"
            ),
            (79, "PCI:0000:01:00", 1234),
        ),
        ("NVRM: Xid (PCI:0000:41:00.0): 31, Ch 00000008", (31, "PCI:0000:41:00.0", None)),
        (
            "[Mon Nov 30 23:02:00 2026] NVRM: Xid (PCI:0000:c1:00): 119, pid='<unknown>', name=<unknown>, Timeout",
            (119, "PCI:0000:c1:00", None),
        ),
    ],
)
def test_xid(line: str, expected: tuple) -> None:
    (event,) = parse(kernel, line)
    assert event[1:] == expected


@pytest.mark.parametrize(
    "line",
    [
        "Out of memory error",
        "torch: CUDA out of memory",
        "NVRM: loading NVIDIA UNIX",
        "Out of memory: Killed process x (y)",
        "NVRM: Xid (x): " + "9" * 6000,
        "Out of memory: Killed process " + "9" * 6000 + " (x)",
    ],
)
def test_kernel_near_miss(line: str) -> None:
    assert parse(kernel, line) == []

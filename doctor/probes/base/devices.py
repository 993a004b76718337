"""The GPUs as the gpus observer found them, and those of them that a launch sees."""

from __future__ import annotations

from typing import Any, NamedTuple

from doctor.launch.check_env import count_devices
from doctor.memory.gpus import Machine, make_gpu
from doctor.memory.units import MIB
from doctor.probes.base.context import Context
from doctor.probes.base.files import read_fields


class Device(NamedTuple):
    """One GPU. Sizes are bytes, None where the driver does not say; `raw` is everything that NVML said."""

    number: int
    name: str
    uuid: str
    capability: tuple[int, int] | None
    total: int | None
    free: int | None
    raw: dict[str, Any]

    @property
    def level(self) -> int | None:
        """The compute capability as a number: 90 for 9.0."""
        return None if self.capability is None else self.capability[0] * 10 + self.capability[1]


def list_devices(context: Context) -> list[Device]:
    """Return all GPUs of the machine, empty when there are none or they could not be asked."""
    data = context.look("gpus").data
    rows = data.get("devices", []) if isinstance(data, dict) else []
    return [read_device(row) for row in rows if isinstance(row, dict) and not row.get("error")]


def read_device(row: dict[str, Any]) -> Device:
    """Read one device of the observer's answer."""
    pair = row.get("capability")
    capability = (int(pair[0]), int(pair[1])) if isinstance(pair, list) and len(pair) == 2 else None
    return Device(
        int(row.get("index", 0)),
        str(row.get("name") or "GPU"),
        str(row.get("uuid") or ""),
        capability,
        row.get("total"),
        row.get("free"),
        row,
    )


def wants_gpu(context: Context) -> bool:
    """Tell whether parts for GPUs must work: a launch asks for one, or without a launch one is here."""
    return context.uses_gpu and (context.launch is not None or bool(list_devices(context)))


def list_slices(devices: list[Device]) -> list[str]:
    """Return the UUIDs of all MIG slices."""
    return [str(uuid) for device in devices for uuid in device.raw.get("mig_devices") or ()]


def read_visible(context: Context) -> list[str] | None:
    """Return the entries of CUDA_VISIBLE_DEVICES as CUDA reads them, None when it is not set."""
    value = context.environment.get("CUDA_VISIBLE_DEVICES")
    return None if value is None else [entry.strip() for entry in value.split(",")]


def find_device(entry: str, devices: list[Device]) -> Device | None:
    """Return the GPU that an entry of CUDA_VISIBLE_DEVICES names: a number or the beginning of a UUID."""
    if entry.isdecimal() and len(entry) < 6:
        return next((device for device in devices if device.number == int(entry)), None)
    matching = [device for device in devices if entry.startswith("GPU-") and device.uuid.startswith(entry)]
    return matching[0] if len(matching) == 1 else None


def list_visible(context: Context) -> list[Device]:
    """Return the GPUs that the launch sees, in its order: CUDA stops at the first entry that is wrong.

    An entry that is there twice keeps CUDA from starting (cuInit gives 101 on an H200, driver 580).
    """
    devices = list_devices(context)
    entries = read_visible(context)
    if entries is None:
        return devices
    seen: list[Device] = []
    for entry in entries:
        device = find_device(entry, devices)
        if device in seen:
            return []
        if device is None:
            break
        seen.append(device)
    return seen


def list_used(context: Context) -> list[Device]:
    """Return the GPUs that this launch will take on this host, as far as they are there."""
    seen = list_visible(context)
    first, step = context.value("base_gpu_id", 0), context.count("gpu_id_step")
    needed = count_needed(context)
    if needed is None or not isinstance(first, int):
        return seen
    return seen[max(0, first) : needed : step]


def count_needed(context: Context) -> int | None:
    """Return how many GPUs the launch must see here, None without a launch or when its flags do not say."""
    return None if context.launch is None else count_devices(context.launch.values)


def describe_host(context: Context) -> Machine:
    """Return the machine for the memory plan: the least GPU that the launch takes, and the host's memory."""
    used = [device for device in list_used(context) if device.total]
    memory = read_fields(context.read("/proc/meminfo"))
    machine = Machine(
        None,
        ram=memory.get("MemTotal"),
        ram_available=memory.get("MemAvailable"),
        memory_limit=read_limit(context),
        shm=read_shm(context),
    )
    if not used:
        return machine
    least = min(used, key=lambda device: device.total or 0)
    gpu = make_gpu(least.name, (least.total or 0) // MIB, least.capability or (0, 0))
    free = min((device.free for device in used if device.free is not None), default=None)
    return machine._replace(gpu=gpu, gpus=len(list_visible(context)), gpu_free=free)


def read_limit(context: Context) -> int | None:
    """Return the smallest memory limit of the process's control groups in bytes, v2 or v1; None without one."""
    limits = [
        limit
        for folder in list_cgroups(context)
        for name in ("memory.max", "memory.limit_in_bytes")
        if (limit := context.read_number(f"{folder}/{name}")) is not None
    ]
    # v1 says "no limit" as 2^63 rounded down to a page
    return min((limit for limit in limits if limit < 1 << 60), default=None)


def list_cgroups(context: Context) -> list[str]:
    """Return the folders of the memory controller from this process's group up to the root."""
    folders = ["/sys/fs/cgroup", "/sys/fs/cgroup/memory"]
    for line in (context.read("/proc/self/cgroup") or "").splitlines():
        _, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if controllers == "" or "memory" in controllers.split(","):
            base = "/sys/fs/cgroup" if controllers == "" else "/sys/fs/cgroup/memory"
            parts = [part for part in path.split("/") if part not in ("", "..")]
            folders += ["/".join([base, *parts[:depth]]) for depth in range(1, min(len(parts), 32) + 1)]
    return list(dict.fromkeys(folders))


def read_shm(context: Context) -> int | None:
    """Return the size of /dev/shm in bytes."""
    found = (context.look("paths").data or {}).get("/dev/shm", {})  # noqa: S108 - looked at, not written to
    total = found.get("total") if found.get("exists") else None
    return int(total) if total else None

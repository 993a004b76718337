"""The device files that CUDA opens, and whether this user may."""

from __future__ import annotations

import os
from collections.abc import Iterator

from doctor.probes.base.context import Context
from doctor.probes.base.devices import list_devices
from doctor.probes.base.files import exists, place
from doctor.probes.base.result import Result, make_error, make_ok, make_void, make_warning

NAME = "device-nodes"
GROUP = "gpu"
SUMMARY = "the device files may be opened"
NEEDS = ("gpus",)
INSIDE = False


def probe(context: Context) -> Iterator[Result]:
    """Look at /dev/nvidia*, or at what AMD and Ascend have instead."""
    nodes = list_nodes(context)
    if list_devices(context):
        # the processor's own graphics may have a /dev/kfd that is closed, and nobody needs it
        nodes = [node for node in nodes if node.startswith("/dev/nvidia")]
    if not nodes:
        yield make_void(NAME, "no device files of an accelerator")
        return
    denied = [node for node in nodes if not os.access(place(context.root, node), os.R_OK | os.W_OK)]
    if denied:
        fixes = ("sudo usermod -aG video,render $USER   # then log in again", f"ls -l {denied[0]}")
        yield make_error(NAME, "this user may not open the GPU's device files", tuple(denied[:8]), fixes)
    elif list_devices(context) and not exists(context.root, "/dev/nvidia-uvm"):
        summary = "/dev/nvidia-uvm is missing: CUDA cannot start until it exists"
        yield make_warning(NAME, summary, (), ("sudo nvidia-modprobe -u -c=0",))
    else:
        yield make_ok(NAME, f"{len(nodes)} device files, all may be opened")


def list_nodes(context: Context) -> list[str]:
    """List the character devices of accelerators."""
    names = [name for name in context.list("/dev") if is_node(name)]
    return [f"/dev/{name}" for name in names if not os.path.isdir(place(context.root, f"/dev/{name}"))]


def is_node(name: str) -> bool:
    """Tell the device files of NVIDIA (control, unified memory, numbered), AMD and Ascend."""
    plain = name.removeprefix("nvidia").removeprefix("davinci")
    return name in {"nvidiactl", "nvidia-uvm", "kfd", "davinci_manager"} or (plain != name and plain.isdecimal())

"""Contexts over a real folder in place of /, and what observers would have brought back."""

import os
import stat
import sys

from doctor.launch.command import parse_command
from doctor.probes.base.children import start_clock
from doctor.probes.base.context import Answer, Context, Interpreter
from doctor.probes.base.launch import make_launch, overlay

GIB = 1 << 30
LAUNCH = "python3 -m sglang.launch_server --model-path /m"
TP2, TP4 = f"{LAUNCH} --tp 2", "sglang serve --model-path /m --tp 4"
NO_NVML = Answer(None, "NVML: its library is not here; nvidia-smi: not on PATH")


def make_context(root, command="", environment=None, observed=None, model=None, *, version="0.5.15.post1", **fields):
    parsed = parse_command(command) if command else None
    merged = overlay({"PATH": "/usr/bin:/bin", "HOME": "/root", **(environment or {})}, parsed)
    answers = {name: value if isinstance(value, Answer) else Answer(value) for name, value in (observed or {}).items()}
    context = Context(
        str(root),
        merged,
        Interpreter("/venv/bin/python", "the launch command"),
        make_launch(parsed, version, merged) if parsed else None,
        str(model) if model else None,
        online=False,
        clock=start_clock(20),
        observed=answers,
    )
    return context._replace(**fields)


def see_gpus(root, gpus, command="", **fields):
    return make_context(root, command, observed={"gpus": gpus, **fields.pop("observed", {})}, **fields)


def see_python(root, python, command="", **fields):
    return make_context(root, command, observed={"python": python, **fields.pop("observed", {})}, **fields)


def make_device(index=0, **fields):
    device = {
        "index": index,
        "name": "NVIDIA H200",
        "uuid": f"GPU-0000{index}000-1111",
        "capability": [9, 0],
        "total": 140 * GIB,
        "free": 139 * GIB + GIB // 2,
        "minor": index,
        "processes": [],
        "compute_mode": 0,
        "mig": [0, 0],
    }
    return {**device, **fields}


def make_gpus(*devices, driver="580.65.06", cuda=13000):
    devices = devices or (make_device(),)
    return {"driver": driver, "cuda": cuda, "count": len(devices), "devices": list(devices), "source": "NVML"}


def make_package(name, version, folder="/venv/lib/site-packages", **fields):
    return {"name": name, "version": version, "folder": folder, **fields}


def make_python(*rows, **interpreter):
    packages = {}
    for row in rows:
        packages.setdefault(row["name"], []).append(row)
    known = {
        "version": "3.12.3",
        "machine": "x86_64",
        "libc": ["glibc", "2.39"],
        "headers": True,
        "prefix": "/venv",
        "base_prefix": "/usr",
        "shadows": [],
        "user_site": "",
        "sglang_at": "",
    }
    return {"interpreter": {**known, **interpreter}, "packages": packages, "editables": []}


def make_torch(version="2.11.0+cu130", cuda="13.0"):
    return make_package(
        "torch", version, version_file={"version": version, "cuda": cuda} if cuda else {"version": version}
    )


def make_sglang(version="0.5.15.post1", *requires, **fields):
    return make_package("sglang", version, requires=list(requires), requires_python=">=3.10", **fields)


def make_path(path, **fields):
    row = {
        "exists": True,
        "is_folder": True,
        "folder": path,
        "free": 100 * GIB,
        "total": 200 * GIB,
        "inodes": 10**6,
        "has_inodes": True,
        "writable": True,
        "readable": True,
    }
    return {path: {**row, **fields}}


def run(module, context):
    return list(module.probe(context))


def problems(module, context):
    return [result for result in run(module, context) if result.status == "problem"]


def statuses(module, context):
    return [result.status for result in run(module, context)]


def write(root, path, text):
    where = os.path.join(str(root), path.lstrip("/"))
    os.makedirs(os.path.dirname(where), exist_ok=True)
    with open(where, "w", encoding="utf-8") as stream:
        stream.write(text)
    return where


def write_program(path, text):
    with open(path, "w", encoding="utf-8") as stream:
        stream.write(text)
    os.chmod(path, os.stat(path).st_mode | stat.S_IXUSR)
    return str(path)


def write_python(folder, site):
    """A real interpreter of its own: the test's Python behind a script that puts `site` first on its path."""
    text = f'#!/bin/sh\nPYTHONPATH="{site}${{PYTHONPATH:+:$PYTHONPATH}}" exec "{sys.executable}" "$@"\n'
    return write_program(os.path.join(str(folder), "python3"), text)


def write_package(site, name, version, *, module="", requires=(), text=""):
    folder = os.path.join(str(site), f"{name.replace('-', '_')}-{version}.dist-info")
    os.makedirs(folder, exist_ok=True)
    lines = [f"Name: {name}", f"Version: {version}", *(f"Requires-Dist: {line}" for line in requires)]
    with open(os.path.join(folder, "METADATA"), "w", encoding="utf-8") as stream:
        stream.write("\n".join(lines) + "\n\n")
    if module:
        os.makedirs(os.path.join(str(site), module), exist_ok=True)
        with open(os.path.join(str(site), module, "__init__.py"), "w", encoding="utf-8") as stream:
            stream.write(text)

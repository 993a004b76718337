"""Sentences that several formats share."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from doctor.diagnosis.model import Diagnosis, Evidence, Report
from doctor.launch.edits import Edit
from doctor.redact import flatten

HEADLINES = {
    "failure": "FAILURE",
    "healthy": "HEALTHY",
    "incomplete": "INCOMPLETE",
    "unknown": "UNKNOWN",
}
SUMMARIES = {
    "failure": "a cause was found",
    "healthy": "nothing in this log points to a failure",
    "incomplete": "the cause is not in this input",
    "unknown": "this does not look like the output of an SGLang server",
}


def summarise(report: Report) -> str:
    """One line for stderr."""
    root = report.root
    name = f": {root.rule} {root.name} ({root.confidence})" if root else f": {SUMMARIES[report.verdict]}"
    return f"doctor: {report.verdict}{name}"


def describe_place(report: Report, item: Diagnosis) -> str:
    """Where it happened: phase, ranks, version; empty parts are left out."""
    parts = []
    if report.phase and item.role == "root":
        parts.append(f"phase {report.phase}")
    if item.ranks:
        shown = ", ".join(item.ranks[:4]) + (f" and {len(item.ranks) - 4} more" if len(item.ranks) > 4 else "")
        parts.append(f"rank {shown}")
    if item.times > 1:
        parts.append(f"{item.times} times")
    if report.sglang_version and item.role == "root":
        parts.append(f"SGLang {report.sglang_version}")
    return ", ".join(parts)


def locate(report: Report, evidence: Evidence) -> str:
    """FILE:LINE of an evidence line."""
    path = report.files[evidence.file].path if evidence.file < len(report.files) else ""
    return f"{flatten(path)}:{evidence.line}"


def describe_launch(report: Report) -> list[str]:
    """Say in words what the launch asked for, most telling first; empty when the log does not show it."""
    asked, gpu = report.facts.get("launch", {}), report.facts.get("gpu", {})
    if "model_path" not in asked:
        return []
    phrases = [
        f"model {_name_model(str(asked['model_path']))}",
        *_describe_gpu(gpu),
        *_describe_split(asked),
    ]
    phrases += _describe_offload(asked)
    if asked.get("disable_cuda_graph") or asked.get("cuda_graph_backend_decode") == "disabled":
        phrases.append("CUDA graphs off")
    if asked.get("max_running_requests") == 1:
        phrases.append("one request at a time")
    named = ("quantization", "kv_cache_dtype", "context_length", "mem_fraction_static", "attention_backend")
    phrases += [f"{name} {asked[name]}" for name in named if asked.get(name) not in (None, "auto")]
    return phrases


def _name_model(path: str) -> str:
    """Name a model by its folder; a snapshot in the hub's cache by its repository."""
    hub = re.search(r"models--([\w.-]+?)--([\w.-]+)/snapshots/", path)
    return f"{hub[1]}/{hub[2]}" if hub else path.rstrip("/").rpartition("/")[2]


def _describe_gpu(gpu: Mapping[str, Any]) -> list[str]:
    capability = f", compute capability {gpu['capability']}" if "capability" in gpu else ""
    return [f"GPU {gpu['name']}{capability}"] if "name" in gpu else []


def _describe_split(asked: Mapping[str, Any]) -> list[str]:
    sizes = [
        f"{name.removesuffix('_size')} {asked[name]}"
        for name in ("tp_size", "pp_size", "dp_size", "ep_size")
        if asked.get(name, 1) != 1
    ]
    return [*sizes, *([f"{asked['nnodes']} nodes"] if asked.get("nnodes", 1) != 1 else [])]


def _describe_offload(asked: Mapping[str, Any]) -> list[str]:
    group, moved = asked.get("offload_group_size", -1), asked.get("offload_num_in_group", 1)
    phrases = []
    if isinstance(group, int) and isinstance(moved, int) and group > 0:
        phrases.append(
            "all expert layers offloaded to host memory"
            if moved >= group
            else f"{moved} of every {group} expert layers offloaded"
        )
    if asked.get("cpu_offload_gb"):
        phrases.append(f"{asked['cpu_offload_gb']} GB of weights per rank offloaded to host memory")
    return phrases


def describe_edit(edit: Edit) -> str:
    """Say an edit that no corrected command shows."""
    if edit.kind == "package":
        return f"install {edit.name}{edit.after or ''}"
    if edit.kind == "shell":
        return edit.name
    if edit.after is None:
        return f"unset {edit.name}" if edit.kind == "env" else f"remove {edit.name}"
    if edit.kind == "env":
        return f"{edit.name}={edit.after}"
    return f"{edit.name} {edit.after}".rstrip()

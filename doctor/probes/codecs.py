"""FFmpeg and torchcodec, which only models with audio or video need."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from doctor.errors import DoctorError
from doctor.memory import config as cfg
from doctor.probes.base.context import Context
from doctor.probes.base.result import Result, make_ok, make_unknown, make_void, make_warning
from doctor.probes.base.stack import find_version, read_requirements, read_torch, write_install
from doctor.probes.base.versions import order_version, split_requirement

NAME = "codecs"
GROUP = "python"
SUMMARY = "audio and video can be decoded"
NEEDS = ("python", "codecs", "paths", "imports")
INSIDE = True

_INSTALL = {
    "debian": "sudo apt-get install -y ffmpeg",
    "ubuntu": "sudo apt-get install -y ffmpeg",
    "fedora": "sudo dnf install -y ffmpeg-free",
    "rhel": "sudo dnf install -y epel-release && sudo dnf install -y ffmpeg-free",
    "alpine": "apk add ffmpeg",
    "arch": "sudo pacman -S ffmpeg",
    "suse": "sudo zypper install ffmpeg",
}
# torch to the torchcodecs built with it (torchcodec's README, table of compatible versions); from 0.12 on torchcodec
# runs with every torch from 2.11 on.
_PAIRS = {
    "2.6": ("0.2",),
    "2.7": ("0.3", "0.4", "0.5"),
    "2.8": ("0.6", "0.7"),
    "2.9": ("0.8", "0.9"),
    "2.10": ("0.10",),
    "2.11": ("0.11",),
}
_STABLE = "0.12"


class Codecs(NamedTuple):
    """What is here: torchcodec's version, the FFmpeg versions whose libavutil loads, and torchcodec's cores.

    `tried` is what came of loading the cores beside torch (the error, empty for success), None when that was not
    possible.
    """

    version: str | None
    ffmpeg: tuple[int, ...]
    cores: tuple[int, ...]
    tried: Mapping[str, str] | None

    @property
    def is_usable(self) -> bool:
        """Whether a core loads, or at least could."""
        if self.tried is None:
            return bool(set(self.ffmpeg) & set(self.cores))
        return any(not error for error in self.tried.values())


def probe(context: Context) -> Iterator[Result]:
    """One quiet line unless the model speaks or shows films."""
    answer = context.look("codecs")
    if answer.data is None:
        yield make_unknown(NAME, SUMMARY, answer.reason)
        return
    codecs = read_codecs(context, answer.data)
    versions = ", ".join(f"FFmpeg {number}" for number in codecs.ffmpeg) or "no FFmpeg library"
    if not needs_media(context):
        yield make_void(NAME, f"not needed by this launch ({versions}; torchcodec {codecs.version or 'not installed'})")
        return
    broken = [row for row in answer.data["libraries"] if row["error"]]
    evidence = (
        f"loads: {versions}",
        f"torchcodec {codecs.version or 'is not installed'}, cores for FFmpeg {list(codecs.cores) or 'none'}",
        *(f"libavutil.so.{row['avutil']}: {row['error']}" for row in broken[:2]),
        *(f"core for FFmpeg {number}: {error}" for number, error in list_errors(codecs)),
    )
    yield judge(context, codecs, evidence)


def read_codecs(context: Context, found: Mapping[str, list[object]]) -> Codecs:
    """Put together what both children saw."""
    rows = [row for row in found["libraries"] if isinstance(row, dict)]
    names = [re.search(r"core(\d{1,2})", str(name)) for name in found["cores"]]
    tried = (context.look("imports").data or {}).get("torchcodec", {}).get("cores")
    return Codecs(
        find_version(context, "torchcodec"),
        tuple(row["ffmpeg"] for row in rows if not row["error"]),
        tuple(sorted(int(match[1]) for match in names if match)),
        tried if isinstance(tried, dict) and tried else None,
    )


def list_errors(codecs: Codecs) -> list[tuple[str, str]]:
    """List why cores did not load, those of an FFmpeg that is not here last and never beside others."""
    errors = [(number, error) for number, error in (codecs.tried or {}).items() if error]
    telling = [(number, error) for number, error in errors if "libavutil.so" not in error]
    return (telling or errors)[:2]


def judge(context: Context, codecs: Codecs, evidence: tuple[str, ...]) -> Result:
    """Judge what a model with audio or video will find."""
    torch = read_torch(context)[0] or ""
    if codecs.version is None:
        summary = "torchcodec is missing: requests with audio or video will fail"
        return make_warning(NAME, summary, evidence, suggest(context, torch))
    is_other = codecs.tried is None and not is_pair(codecs.version, torch)
    lacks_symbol = any("undefined symbol" in error for _, error in list_errors(codecs))
    if is_other or (lacks_symbol and not codecs.is_usable):
        summary = f"torchcodec {codecs.version} was built for another torch than {torch}"
        return make_warning(NAME, summary, evidence, suggest(context, torch))
    if not codecs.is_usable:
        summary = "torchcodec finds no FFmpeg library it can use"
        return make_warning(NAME, summary, evidence, (find_command(context),))
    return make_ok(NAME, f"torchcodec {codecs.version} can use FFmpeg", *evidence)


def is_pair(codec: str, torch: str) -> bool:
    """Tell whether a torchcodec was built for a torch, as far as is known."""
    names = _PAIRS.get(".".join(torch.split(".")[:2]))
    is_stable = order_version(codec) >= order_version(_STABLE) and order_version(torch) >= order_version("2.11")
    return names is None or is_stable or ".".join(codec.split(".")[:2]) in names


def needs_media(context: Context) -> bool:
    """Tell whether the model's config has an audio or video part."""
    if context.model is None:
        return False
    try:
        config = cfg.read_json(Path(context.model) / "config.json")
    except DoctorError:
        return False
    return has_media(config)


def has_media(config: Mapping[str, object]) -> bool:
    """Tell an audio encoder or video tokens in a model's config.json."""
    names = " ".join(str(name) for name in config).lower()
    inner = " ".join(str(name) for part in config.values() if isinstance(part, dict) for name in part).lower()
    return any(word in f"{names} {inner}" for word in ("audio", "video", "speech", "whisper"))


def suggest(context: Context, torch: str) -> tuple[str, ...]:
    """Return how to install torchcodec: as sglang pins it, else the newest that goes with torch."""
    rows = [split_requirement(line) for line in read_requirements(context)]
    pinned = next((specifier for name, _, specifier, _ in rows if name == "torchcodec"), "")
    names = _PAIRS.get(".".join(torch.split(".")[:2]))
    return write_install(context, f"torchcodec{pinned or (f'=={names[-1]}.*' if names else '')}")


def find_command(context: Context) -> str:
    """Return this distribution's command that installs FFmpeg."""
    text = (context.read("/etc/os-release") or "").lower()
    fields = dict(line.split("=", 1) for line in text.splitlines() if "=" in line)
    names = f"{fields.get('id', '')} {fields.get('id_like', '')}".replace('"', "").split()
    return next((_INSTALL[name] for name in names if name in _INSTALL), "conda install -c conda-forge 'ffmpeg<9'")

"""FFmpeg and torchcodec, which only models with audio or video need."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from doctor.errors import DoctorError
from doctor.memory import config as cfg
from doctor.probes.base.context import Context
from doctor.probes.base.result import Result, make_ok, make_unknown, make_void, make_warning
from doctor.probes.base.stack import find_version, read_torch, write_install

NAME = "codecs"
GROUP = "python"
SUMMARY = "audio and video can be decoded"
NEEDS = ("python", "codecs", "paths")

_INSTALL = {
    "debian": "sudo apt-get install -y ffmpeg",
    "ubuntu": "sudo apt-get install -y ffmpeg",
    "fedora": "sudo dnf install -y ffmpeg-free",
    "rhel": "sudo dnf install -y epel-release && sudo dnf install -y ffmpeg-free",
    "alpine": "apk add ffmpeg",
    "arch": "sudo pacman -S ffmpeg",
    "suse": "sudo zypper install ffmpeg",
}
# torch to the torchcodec built with it (torchcodec's README, table of compatible versions).
_PAIRS = {"2.6": "0.2", "2.7": "0.5", "2.8": "0.7", "2.9": "0.9", "2.10": "0.10", "2.11": "0.11"}


def probe(context: Context) -> Iterator[Result]:
    """One quiet line unless the model speaks or shows films."""
    answer = context.look("codecs")
    if answer.data is None:
        yield make_unknown(NAME, SUMMARY, answer.reason)
        return
    needed = needs_media(context)
    found = [row for row in answer.data["libraries"] if not row["error"]]
    broken = [row for row in answer.data["libraries"] if row["error"]]
    versions = (
        ", ".join(f"FFmpeg {row['ffmpeg']} (libavutil.so.{row['avutil']})" for row in found) or "no FFmpeg library"
    )
    codec = find_version(context, "torchcodec")
    cores = [int(match[1]) for name in answer.data["cores"] if (match := re.search(r"core(\d+)", name))]
    evidence: tuple[str, ...] = (
        f"loads: {versions}",
        f"torchcodec {codec or 'is not installed'}, cores for FFmpeg {cores or 'none'}",
    )
    evidence += tuple(f"libavutil.so.{row['avutil']}: {row['error']}" for row in broken[:2])
    usable = bool({row["ffmpeg"] for row in found} & set(cores))
    if not needed:
        yield make_void(NAME, f"not needed by this launch ({versions}; torchcodec {codec or 'not installed'})")
    elif codec is None:
        yield make_warning(NAME, "torchcodec is missing: requests with video will fail", evidence, suggest(context))
    elif not usable:
        yield make_warning(NAME, "torchcodec finds no FFmpeg library it can use", evidence, (find_command(context),))
    else:
        yield make_ok(NAME, f"torchcodec {codec} can use {versions}", *evidence)
    yield from check_pair(context, codec, evidence) if needed else ()


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


def suggest(context: Context) -> tuple[str, ...]:
    """Return how to install torchcodec of the version that torch needs."""
    torch, _, _ = read_torch(context)
    pair = _PAIRS.get(".".join((torch or "").split(".")[:2]))
    return write_install(context, f"torchcodec=={pair}.*" if pair else "torchcodec")


def find_command(context: Context) -> str:
    """Return this distribution's command that installs FFmpeg."""
    text = (context.read("/etc/os-release") or "").lower()
    fields = dict(line.split("=", 1) for line in text.splitlines() if "=" in line)
    names = f"{fields.get('id', '')} {fields.get('id_like', '')}".replace('"', "").split()
    return next((_INSTALL[name] for name in names if name in _INSTALL), "conda install -c conda-forge 'ffmpeg<9'")


def check_pair(context: Context, codec: str | None, evidence: tuple[str, ...]) -> Iterator[Result]:
    """Yield a torchcodec that was built with another torch."""
    torch, _, _ = read_torch(context)
    wanted = _PAIRS.get(".".join((torch or "").split(".")[:2]))
    if codec and wanted and ".".join(codec.split(".")[:2]) != wanted:
        yield make_warning(
            NAME, f"torchcodec {codec} was built for another torch than {torch}", evidence, suggest(context)
        )

"""Child program: try to load the FFmpeg libraries that torchcodec looks for, and list torchcodec's own cores."""

from __future__ import annotations

import ctypes
import importlib.util
import json
import os

# libavutil's number for FFmpeg 4 to 9 (FFmpeg's APIchanges; torchcodec 0.17 looks for cores of 4 to 9).
_VERSIONS = {56: 4, 57: 5, 58: 6, 59: 7, 60: 8, 61: 9}


def main() -> None:
    """Print which FFmpeg versions load completely, and the cores of the installed torchcodec."""
    for number, ffmpeg in _VERSIONS.items():
        error = load(f"libavutil.so.{number}")
        if not error or "cannot open shared object file" not in error:
            print(json.dumps({"avutil": number, "ffmpeg": ffmpeg, "error": error}), flush=True)
    print(json.dumps({"cores": list_cores()}), flush=True)


def load(name: str) -> str:
    """Load a library; return the error, empty when it worked."""
    try:
        ctypes.CDLL(name)
    except OSError as error:
        return str(error)[:300]
    return ""


def list_cores() -> list[str]:
    """List torchcodec's core libraries, one for each FFmpeg version it can use."""
    try:
        spec = importlib.util.find_spec("torchcodec")
        folder = next(iter(spec.submodule_search_locations or ()), "") if spec else ""
        return sorted(name for name in os.listdir(folder) if name.startswith("libtorchcodec_core")) if folder else []
    except (OSError, ImportError, ValueError):
        return []


if __name__ == "__main__":
    main()

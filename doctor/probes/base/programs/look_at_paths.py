"""Child program: look at folders that may lie on a dead network file system; each is an argument."""

from __future__ import annotations

import json
import os
import sys
from typing import Any


def main() -> None:
    """Print one object for each path, at once."""
    for path in sys.argv[1:]:
        try:
            found = look_at(os.path.abspath(path))
        except OSError as error:
            found = {"error": error.strerror or str(error)}
        print(json.dumps({"path": path, **found}), flush=True)


def look_at(path: str) -> dict[str, Any]:
    """Return space, inodes and rights of the nearest folder that exists."""
    folder = path
    while folder != "/" and not os.path.exists(folder):
        folder = os.path.dirname(folder)
    space = os.statvfs(folder)
    return {
        "exists": folder == path,
        "is_folder": folder == path and os.path.isdir(path),
        "folder": folder,
        "free": space.f_bavail * space.f_frsize,
        "total": space.f_blocks * space.f_frsize,
        "inodes": space.f_favail,
        "has_inodes": space.f_files > 0,
        "writable": os.access(folder, os.W_OK | os.X_OK) and not space.f_flag & os.ST_RDONLY,
        "readable": os.access(folder, os.R_OK),
        "device": os.stat(folder).st_dev,
    }


if __name__ == "__main__":
    main()

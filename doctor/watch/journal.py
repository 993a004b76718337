"""The event stream (`--events FILE`): one JSON object a line, redacted, never in the way."""

from __future__ import annotations

import json
import os
import time
from typing import Any

from doctor.errors import DoctorError
from doctor.redact import clean


class Journal:
    """Appends events; a file that cannot be opened is the user's error, one that cannot be written later is skipped."""

    def __init__(self, path: str | None) -> None:
        self._descriptor = -1
        if path is None:
            return
        try:
            self._descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise DoctorError(
                f"{path}: events cannot be written there ({error.strerror})", "give another file"
            ) from error

    def write(self, event: str, **fields: Any) -> None:
        """Append one event with the wall clock's time in seconds since 1970."""
        if self._descriptor < 0:
            return
        row = {"time": round(time.time(), 3), "event": event, **{name: _plain(value) for name, value in fields.items()}}
        data = (json.dumps(row, ensure_ascii=True) + "\n").encode()
        try:
            os.write(self._descriptor, data)
        except OSError:
            return  # a full disk must not end a server

    def close(self) -> None:
        """Close the file."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


def _plain(value: Any) -> Any:
    if isinstance(value, str):
        return clean(value)[:2000]
    return [_plain(item) for item in value] if isinstance(value, list | tuple) else value

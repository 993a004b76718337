"""The one exception that means "your input is wrong"; everything else is a bug of ours."""

from __future__ import annotations


class DoctorError(Exception):
    """Say what is wrong with the user's input and what to do about it (exit code 2).

    `message` names the file or argument and the reason; `hint` is the next command to type, or None.
    """

    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

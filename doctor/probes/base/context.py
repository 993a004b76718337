"""What every probe looks at: the launch, its interpreter and environment, and what the observers brought back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from doctor.launch.flags import FlagTable
from doctor.launch.model import Command
from doctor.launch.values import Values
from doctor.probes.base.children import Clock
from doctor.probes.base.files import list_names, read_number, read_text


class Answer(NamedTuple):
    """What an observer brought back: data, or the reason why there is none (both when it is partial)."""

    data: Any
    reason: str = ""


class Interpreter(NamedTuple):
    """The Python that would run SGLang (None: not found), and where it was found or why not.

    `in_container`: the launch starts a container, in which everything may be different.
    """

    path: str | None
    origin: str
    in_container: bool = False


class Launch(NamedTuple):
    """The launch to judge: the command, the flags of its version and their values.

    `arguments` are the fields of ServerArgs that the command sets, with its environment variables beside them.
    """

    command: Command
    table: FlagTable
    values: Values
    arguments: Mapping[str, Any]


class Context(NamedTuple):
    """All that a probe may look at.

    `root` is / except in tests. `environment` is what the launch would find: the caller's with the command's
    assignments on top. `model` is the model's folder, None when it is a hub name or not given.
    """

    root: str
    environment: Mapping[str, str]
    python: Interpreter
    launch: Launch | None
    model: str | None
    online: bool
    clock: Clock
    observed: Mapping[str, Answer]

    def read(self, path: str) -> str | None:
        """Return a small file's text, None when it cannot be read."""
        return read_text(self.root, path)

    def read_number(self, path: str) -> int | None:
        """Return a file's whole number, None when it holds none."""
        return read_number(self.root, path)

    def list(self, path: str) -> list[str]:
        """List a folder in order, empty when it cannot be read."""
        return list_names(self.root, path)

    def look(self, name: str) -> Answer:
        """Return what an observer brought back."""
        return self.observed.get(name, Answer(None, "it was not asked for"))

    def value(self, dest: str, default: Any = None) -> Any:
        """Return the value of a field of ServerArgs in this launch, `default` without a launch or a value."""
        if self.launch is None:
            return default
        found = self.launch.values.read(dest)
        return default if found is None else found

    def count(self, dest: str, default: int = 1) -> int:
        """Return a field that counts something."""
        found = self.value(dest, default)
        return found if isinstance(found, int) and found > 0 else default

    def is_given(self, dest: str) -> bool:
        """Tell whether the command sets a field."""
        return self.launch is not None and dest in self.launch.values.given

    @property
    def is_outside(self) -> bool:
        """Whether the launch runs in a container and the check does not."""
        return self.python.in_container

    @property
    def is_wsl(self) -> bool:
        """Whether this is Linux on Windows, where the driver and what holds the GPU are on the other side."""
        return "microsoft" in (self.read("/proc/version") or "").lower()

    @property
    def uses_gpu(self) -> bool:
        """Whether the launch wants a GPU; true without a launch."""
        return bool(self.value("device") != "cpu")

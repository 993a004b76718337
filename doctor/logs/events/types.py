"""The events that parsers give and everything later reads; plain frozen data."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from doctor.logs.records import Record


class Frame(NamedTuple):
    """One frame of a Python traceback."""

    path: str
    line: int
    function: str


class Raised(NamedTuple):
    """One exception of a chain; `type` is "" when the log ends before the exception's own line.

    `link` says how it follows the one before it: "cause" (raise … from), "context" (while handling) or "".
    """

    type: str
    message: str
    line: int
    frames: tuple[Frame, ...] = ()
    link: str = ""


class ExceptionEvent(NamedTuple):
    """A traceback or a bare exception line, in printed order: the first raised comes first."""

    record: Record
    chain: tuple[Raised, ...]

    @property
    def is_cut(self) -> bool:
        """True when the text ends inside the last traceback, before the exception itself."""
        return not self.chain[-1].type


class ServerArgs(NamedTuple):
    """The `server_args=` dump; values that are no Python literal stay text. `truncated`: no closing bracket."""

    record: Record
    values: Mapping[str, Any]
    truncated: bool


class PhaseMark(NamedTuple):
    """A line that says where the server is: `phase` of the contract, `edge` begin, end or point."""

    record: Record
    phase: str
    edge: str


class OffloadStep(NamedTuple):
    """One layer moved by the grouped offloader; `allocated` is the GPU memory in bytes after the step.

    `layer` is SGLang's module_index; -1 when the excerpt begins inside the line.
    """

    record: Record
    layer: int
    submodule: str
    params: tuple[str, ...]
    allocated: int


class MemoryMark(NamedTuple):
    """A memory figure of the log in GB (kv_tokens and max_total_tokens are counts).

    `what` is before_load, after_load, after_pool, capture, weights, kv, kv_tokens or max_total_tokens.
    """

    record: Record
    what: str
    value: float


class ProcessExit(NamedTuple):
    """A death that SGLang itself reports: which child (or rank), its pid if said, and its exit code."""

    record: Record
    name: str
    pid: int | None
    code: int


class KernelOom(NamedTuple):
    """One kill by the kernel's OOM killer; sizes in kB, `constraint` CONSTRAINT_NONE or CONSTRAINT_MEMCG."""

    record: Record
    pid: int
    task: str
    constraint: str
    anon_kb: int
    shmem_kb: int
    time: str | None


class Xid(NamedTuple):
    """One NVIDIA driver error record."""

    record: Record
    code: int
    device: str
    pid: int | None


class UsageError(NamedTuple):
    """argparse's last line: `error: …`; `options` are the flags that the usage text before it lists."""

    record: Record
    program: str
    message: str
    options: tuple[str, ...]


class CodecProbe(NamedTuple):
    """torchcodec's long text about FFmpeg, as one event; `missing` are the libraries that failed to load."""

    record: Record
    module: str
    missing: tuple[str, ...]
    torch: str | None


class ModuleSkipped(NamedTuple):
    """A module whose import failed and which SGLang went on without."""

    record: Record
    module: str
    reason: str


class BatchStats(NamedTuple):
    """One batch line: `phase` Prefill or Decode, and its figures by the log's own names."""

    record: Record
    phase: str
    values: Mapping[str, float]
    graph: bool | None


class HttpStatus(NamedTuple):
    """An access line that is not 200."""

    record: Record
    method: str
    path: str
    status: int


class Said(NamedTuple):
    """A fact that a line states outright, such as the GPU's name: `name` as rules spell it, and its value."""

    record: Record
    name: str
    value: str | int | float


Event = (
    ExceptionEvent
    | ServerArgs
    | PhaseMark
    | OffloadStep
    | MemoryMark
    | ProcessExit
    | KernelOom
    | Xid
    | UsageError
    | CodecProbe
    | ModuleSkipped
    | BatchStats
    | HttpStatus
    | Said
)

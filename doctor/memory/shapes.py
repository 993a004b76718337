"""The plain data that the parts of this package hand to each other."""

from __future__ import annotations

from typing import NamedTuple


class Param(NamedTuple):
    """One tensor as SGLang holds it on one rank: its name there, the part it belongs to, bytes, dtype.

    `part` is one of attention, dense, experts, shared, router, norm, embedding, head, vision, other
    and buffer (what SGLang derives from weights or computes; not a parameter, so never offloaded).
    """

    name: str
    part: str
    size: int
    dtype: str


class Cache(NamedTuple):
    """What one layer keeps for each token or each request on one rank.

    `kind` is full, window, latent, state or none. `elements` are stored in the KV cache dtype and
    `fixed` bytes per token whatever that dtype is (the index keys of sparse attention); `windowed` bytes per
    token go into the sliding-window pool beside that. `state` is bytes per request in a pool of its own,
    `reserved` bytes for each of max_running_requests; `window` the length of a sliding window in tokens.
    """

    kind: str
    elements: int = 0
    fixed: float = 0
    windowed: float = 0
    state: int = 0
    reserved: int = 0
    window: int = 0


class Layer(NamedTuple):
    """One decoder layer on one rank, its parameters in SGLang's order of construction."""

    number: int
    params: tuple[Param, ...]
    cache: Cache


class Model(NamedTuple):
    """A whole model as one rank sees it (before layers are divided among pipeline stages).

    `first` lives on the first pipeline stage (embedding), `last` on the last (norm, head), `everywhere`
    on each. `draft` layers exist only when speculative decoding uses the checkpoint's own MTP layers.
    `window_pool`: SGLang gives sliding-window layers a pool of their own (else they pay for every token),
    with `window_ratio` times as many tokens as the other one.
    """

    architecture: str
    layers: tuple[Layer, ...]
    first: tuple[Param, ...]
    last: tuple[Param, ...]
    everywhere: tuple[Param, ...]
    draft: tuple[Layer, ...]
    latent: bool
    multimodal: bool
    window_pool: bool
    window_ratio: float
    grouped_offload: bool


class Tensor(NamedTuple):
    """One tensor of a checkpoint, from a file's header: name, dtype, shape and bytes in the file."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    size: int


class Row(NamedTuple):
    """One line of a memory table: what it is, its bytes, and where the number comes from."""

    name: str
    size: int
    source: str


class Edit(NamedTuple):
    """One changed server argument; `value` None removes the flag."""

    flag: str
    value: str | None


class Change(NamedTuple):
    """A change of the launch, what it costs, and the verdict it leads to ("fits" or "tight")."""

    verdict: str
    title: str
    edits: tuple[Edit, ...]
    why: str

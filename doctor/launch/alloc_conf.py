"""PYTORCH_ALLOC_CONF: its syntax, merging two settings, and the keys that each torch version knows."""

from __future__ import annotations

from doctor.errors import DoctorError

# The names torch reads; the first wins where several are set (torch 2.9 on; older ones know the second only).
VARIABLES = ("PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_HIP_ALLOC_CONF")


def parse_alloc_conf(text: str) -> dict[str, str]:
    """Read `key:value,key:value`; lists in brackets stay whole. Raises DoctorError on a syntax error."""
    options: dict[str, str] = {}
    for item in split_items(text):
        key, colon, value = (part.strip() for part in item.partition(":"))
        if not key or not colon:
            raise DoctorError(
                f"PYTORCH_ALLOC_CONF: {item!r} is not key:value", hint="separate key:value pairs by commas"
            )
        options[key] = value
    return options


def split_items(text: str) -> list[str]:
    """Split at the commas that are outside brackets, without empty items."""
    items, depth = [""], 0
    for character in text:
        depth += (character == "[") - (character == "]")
        if character == "," and depth <= 0:
            items.append("")
        else:
            items[-1] += character
    if depth:
        raise DoctorError(f"PYTORCH_ALLOC_CONF: unbalanced brackets in {text!r}")
    return [item for item in items if item.strip()]


def merge_alloc_conf(old: str, new: str) -> str:
    """Return `old` with the keys of `new` set; a key with an empty value (`key:`) is taken out.

    An `old` that torch could not read either is replaced as a whole.
    """
    changes = parse_alloc_conf(new)
    try:
        options = parse_alloc_conf(old)
    except DoctorError:
        options = {}
    options |= changes
    return ",".join(f"{key}:{value}" for key, value in options.items() if value)

"""PYTORCH_ALLOC_CONF: its syntax, merging two settings, and the keys that each torch version knows."""

from __future__ import annotations

from doctor.errors import DoctorError

# The names torch reads; the first wins where several are set (torch 2.9 on; older ones know the second only).
VARIABLES = ("PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_HIP_ALLOC_CONF")


def parse_alloc_conf(text: str) -> dict[str, str]:
    """Read `key:value,key:value`; lists in brackets stay whole. Raises DoctorError on a syntax error."""
    options: dict[str, str] = {}
    if text.count("[") != text.count("]"):
        raise DoctorError(f"PYTORCH_ALLOC_CONF: unbalanced brackets in {text!r}")
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
    return [item for item in items if item.strip()]


def merge_alloc_conf(old: str, new: str) -> str:
    """Return `old` with the keys of `new` set; a key with an empty value (`key:`) is taken out.

    A `$NAME` in `old` stays; other items that torch could not read either are dropped.
    """
    options = {key: item for item in split_items(old) if (key := read_key(item))}
    options |= {key: f"{key}:{value}" if value else "" for key, value in parse_alloc_conf(new).items()}
    return ",".join(item for item in options.values() if item)


def read_key(item: str) -> str:
    """Return the key of `key:value`, a whole item with a variable in it, or nothing for anything else."""
    key, colon, _ = item.partition(":")
    return key.strip() if colon else item if "$" in item else ""

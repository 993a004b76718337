"""Bytes: the units of this package, the sizes people type, and how sizes are printed."""

from __future__ import annotations

from doctor.errors import DoctorError

KIB = 1 << 10
MIB = 1 << 20
GIB = 1 << 30

# A bare "G" means GiB: sglang's own *_gb arguments, docker and numactl all read it so.
SUFFIXES = {
    "": 1,
    "B": 1,
    "K": KIB,
    "KB": 1000,
    "KIB": KIB,
    "M": MIB,
    "MB": 1000**2,
    "MIB": MIB,
    "G": GIB,
    "GB": 1000**3,
    "GIB": GIB,
    "T": 1 << 40,
    "TB": 1000**4,
    "TIB": 1 << 40,
}


def parse_size(text: str) -> int:
    """Return the bytes of a size such as `96GiB`, `1.5TB` or `512m`; raise DoctorError for anything else."""
    cleaned = text.strip().upper().replace(" ", "").replace("_", "")
    digits = cleaned.rstrip("BIKMGT")
    factor = SUFFIXES.get(cleaned[len(digits) :])
    try:
        number = float(digits) if len(digits) <= 20 else float("nan")
    except ValueError:
        number = float("nan")
    if factor is None or not 0 <= number < 1e15:
        raise DoctorError(f"not a size: {text[:40]!r}", hint="write it like 96GiB or 512MB")
    return int(number * factor)


def format_size(size: float) -> str:
    """Return bytes as text with three significant digits or more, in GiB, MiB or KiB."""
    magnitude = abs(size)
    if magnitude >= 100 * GIB:
        return f"{size / GIB:.0f} GiB"
    if magnitude >= GIB:
        return f"{size / GIB:.2f} GiB"
    if magnitude >= MIB:
        return f"{size / MIB:.0f} MiB"
    return f"{size / KIB:.0f} KiB" if magnitude >= KIB else f"{size:.0f} B"


def format_count(number: int) -> str:
    """Return a count of tokens in the form people compare: 4096, 131K, 1.08M."""
    if number >= 10_000_000:
        return f"{number / 1e6:.0f}M"
    if number >= 1_000_000:
        return f"{number / 1e6:.2f}M"
    return f"{number / 1000:.0f}K" if number >= 10_000 else str(number)


def round_up(number: int, step: int) -> int:
    """Return the smallest multiple of `step` that is not below `number`."""
    return -(-number // step) * step


def ceil_divide(number: int, divisor: int) -> int:
    """Return number / divisor rounded towards plus infinity."""
    return -(-number // divisor)

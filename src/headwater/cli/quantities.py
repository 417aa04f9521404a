"""Sizes as people write them, such as 64MiB, read and written, and ages for a glance."""

from __future__ import annotations

import re
from datetime import timedelta

from headwater.errors import UsageError
from headwater.model.durations import format_duration

_PREFIXES = ("k", "m", "g", "t")
_SIZE_UNITS: dict[str, int] = (
    {"": 1, "b": 1}
    | {f"{prefix}b": int(1000**power) for power, prefix in enumerate(_PREFIXES, start=1)}
    | {f"{prefix}ib": int(1024**power) for power, prefix in enumerate(_PREFIXES, start=1)}
)
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([a-z]*)")
_SIZE_HINT = "Write it as a number of bytes, or as 500MB (500,000,000) or 64MiB (67,108,864)."


def parse_size(text: str) -> int:
    """Bytes. Raises `UsageError` if it is no size."""
    found = _SIZE.fullmatch(text.strip().lower())
    if found is None or found[2] not in _SIZE_UNITS:
        raise UsageError(f"{text!r} is not a size.", hint=_SIZE_HINT)
    unit = _SIZE_UNITS[found[2]]
    return round(float(found[1]) * unit) if "." in found[1] else int(found[1]) * unit


def format_size(size: int) -> str:
    """To three digits, in the largest unit that leaves something before the point."""
    value, unit = float(size), "B"
    for larger in ("KiB", "MiB", "GiB", "TiB"):
        # 1023.95 and more would be shown as 1024.0.
        if value < 1023.95:
            break
        value, unit = value / 1024, larger
    digits = f"{value:.0f}" if value >= 99.95 else f"{value:.1f}".removesuffix(".0")
    return f"{digits} {unit}"


def format_age(seconds: float) -> str:
    """A duration for a glance: its two largest units."""
    if seconds < 1:
        return f"{seconds * 1000:.0f}ms" if seconds > 0 else "0s"
    parts = re.findall(r"\d+\D+", format_duration(timedelta(seconds=round(seconds))))
    return "".join(parts[:2])

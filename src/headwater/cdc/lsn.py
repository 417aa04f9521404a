"""Places in PostgreSQL's write-ahead log, as numbers and as PostgreSQL writes them."""

from __future__ import annotations


def format_lsn(lsn: int) -> str:
    """Such as `16/B374D848`."""
    return f"{lsn >> 32:X}/{lsn & 0xFFFFFFFF:X}"


def parse_lsn(text: str) -> int:
    """The number of `16/B374D848`."""
    high, _, low = text.partition("/")
    return int(high, 16) << 32 | int(low, 16)

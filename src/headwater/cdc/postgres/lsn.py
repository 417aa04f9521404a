"""Places in PostgreSQL's write-ahead log."""

from __future__ import annotations

from typing import Self


class Lsn(int):
    """A place in the WAL: a number, whose text is PostgreSQL's own, such as `16/B374D848`."""

    @classmethod
    def parse(cls, text: str) -> Self:
        """The place that PostgreSQL writes so."""
        high, _, low = text.partition("/")
        return cls(int(high, 16) << 32 | int(low, 16))

    def __str__(self) -> str:
        return f"{self >> 32:X}/{self & 0xFFFFFFFF:X}"


ZERO = Lsn(0)
"""Before everything that the WAL has."""

"""Reading a partition: what comes of it, and what a consumer needs to do it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa

FILES_OPEN_MAX = 256
"""Who reads more partitions than this closes the file of each between two reads: a process may not open many."""


@dataclass(frozen=True, slots=True)
class Batch:
    """Records of one partition, in order. `next_offset` is where reading continues, past deleted records, too."""

    topic: str
    partition: int
    records: pa.Table
    next_offset: int


class PartitionReader(Protocol):
    """Reads one partition of one topic, from one thread."""

    def read(self, offset: int) -> Batch | None:
        """The next records from the offset on; None when there is none. Raises `RecordsGone`, `Corrupt`."""

    def release(self) -> None:
        """Closes files until the next read."""

    def close(self) -> None:
        """Ends reading."""

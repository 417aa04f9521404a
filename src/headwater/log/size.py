"""The size of a topic, partition by partition."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True)
class PartitionSize:
    """What a log keeps of one partition: how many records and bytes, in how many segments, and received when.

    The instants are None when it is empty or the log does not know them.
    """

    partition: int
    records: int
    bytes: int
    segments: int
    first_at: datetime | None = None
    last_at: datetime | None = None

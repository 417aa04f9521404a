"""What a topic holds, partition by partition, as its segments tell."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from headwater.log.segments import Segment


@dataclass(frozen=True, slots=True)
class Holding:
    """One partition: offsets from `first` up to `end` (not included); both are None where it holds no segment."""

    partition: int
    first: int | None
    end: int | None
    records: int
    bytes: int
    segments: dict[str, int]

    def to_json(self) -> dict[str, object]:
        return {
            "partition": self.partition,
            "first": self.first,
            "end": self.end,
            "records": self.records,
            "bytes": self.bytes,
            "segments": self.segments,
        }


def holdings(segments: Sequence[Segment], partitions: int) -> list[Holding]:
    """All partitions of a topic, in order."""
    return [_holding([s for s in segments if s.partition == number], number) for number in range(partitions)]


def _holding(segments: Sequence[Segment], partition: int) -> Holding:
    return Holding(
        partition,
        min((segment.base_offset for segment in segments), default=None),
        max((segment.end_offset for segment in segments), default=None),
        sum(segment.rows for segment in segments),
        sum(segment.bytes for segment in segments),
        dict(sorted(Counter(segment.state for segment in segments).items())),
    )

"""What a topic holds, partition by partition, as the log tells."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from headwater.log.maintenance import Segment
from headwater.log.port import Log


@dataclass(frozen=True, slots=True)
class Holding:
    """One partition: offsets from `first` up to `end` (not included), and the segments that hold them."""

    partition: int
    first: int
    end: int
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


def holdings(log: Log, topic: str) -> list[Holding]:
    """All partitions of a topic, in order."""
    segments = log.maintenance.segments(topic)
    return [
        _holding(partition, offsets, [segment for segment in segments if segment.partition == partition])
        for partition, offsets in log.offsets(topic).items()
    ]


def _holding(partition: int, offsets: tuple[int, int], segments: Sequence[Segment]) -> Holding:
    return Holding(
        partition,
        *offsets,
        sum(segment.rows for segment in segments),
        sum(segment.bytes for segment in segments),
        dict(sorted(Counter(_state(segment) for segment in segments).items())),
    )


def _state(segment: Segment) -> str:
    """In one word; an archived segment that is still here, too, is a sealed one."""
    return segment.state if segment.local else "archived"

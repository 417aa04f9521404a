"""Cutting a log into batches of about a wanted number of records: where each ends, and where its records are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from headwater.model.position import Position


@dataclass(frozen=True, slots=True)
class OffsetRange:
    """Records of one partition: those with first <= offset < end."""

    topic: str
    partition: int
    first: int
    end: int

    def share(self, task: int, tasks: int) -> OffsetRange:
        """The part of it that a task reads."""
        size = self.end - self.first
        return OffsetRange(
            self.topic, self.partition, self.first + size * task // tasks, self.first + size * (task + 1) // tasks
        )

    def to_json(self) -> list[str | int]:
        return [self.topic, self.partition, self.first, self.end]


@dataclass(frozen=True, slots=True)
class Cut:
    """The end of a batch, how many records it has, when the last of them was committed, and where they are."""

    end: Position
    records: int = 0
    committed_at: datetime | None = None
    ranges: Sequence[OffsetRange] = ()


class Cutter(Protocol):
    """Cuts the records of some topics into batches, for one thread. It may remember where the last batch ended."""

    def cut(self, start: Position, end: Position, rows_max: int) -> Cut:
        """A batch that ends with the commit that brings it to `rows_max` records, or at `end`; it splits no commit.

        It ends no earlier than compaction has been: before that, records are missing that newer ones have replaced.
        """

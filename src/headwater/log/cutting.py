"""Cutting a log into batches of about a wanted number of records: where each ends, and where its records are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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
    """The end of a batch, how many records it has, when the last of them was committed, and where they are.

    `forgotten`: records of earlier batches that do not count any more from its end on; see `Followers.trimmed`.
    """

    end: Position
    records: int = 0
    committed_at: datetime | None = None
    ranges: Sequence[OffsetRange] = ()
    forgotten: Sequence[OffsetRange] = ()

    @property
    def rows(self) -> int:
        """About how many rows a batch has to do with."""
        return self.records + sum(one.end - one.first for one in self.forgotten)


class Cutter(Protocol):
    """Cuts the records of some topics into batches, for one thread. It may remember where the last batch ended."""

    def cut(self, start: Position, end: Position, rows_max: int) -> Cut:
        """A batch that ends with the commit that brings it to `rows_max` records, or at `end`; it splits no commit.

        It ends no earlier than compaction has been: before that, records are missing that newer ones have replaced. The
        first batch begins with what is kept. Later ones raise `RecordsGone` or `PositionGone` if records between them
        and the one before, or records that they have to forget, are not there any more.
        """

    def begin(self, start: Position, offsets: Mapping[tuple[str, int], int]) -> None:
        """Says at which offset of a topic and partition the batch begins that begins at a position.

        It is for a pipeline that begins with what is kept, or continues although records are gone.
        """

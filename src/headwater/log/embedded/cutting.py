"""Cutting an embedded log into batches: each ends at a commit number, which all partitions share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headwater.errors import PositionGone
from headwater.log.cutting import Cut, OffsetRange
from headwater.log.embedded.position import commit_of, commit_position
from headwater.model.position import START, Position

if TYPE_CHECKING:
    from headwater.log.embedded.log import EmbeddedLog
    from headwater.log.port import Start

BATCH_BYTES_MAX = 256 << 20
"""A batch of large records is cut so that they take about so much memory."""
SMALL_ROWS = 100_000
"""Batches of up to this many records are not asked how large these are."""
SEALED_FACTOR = 3
"""How much larger records are in memory than in a sealed segment, more or less."""

COMMIT, AT, OFFSET = "_commit", "_received_at", "_offset"


class CommitCutter:
    """See `Cutter` for the contract. It remembers where the last batch ended in each partition."""

    def __init__(self, log: EmbeddedLog, topics: Sequence[str]) -> None:
        self._log, self._topics = log, topics
        self._forgetting = [name for name in topics if log.topic(name).settings.views == "forget"]
        self._reached: tuple[Position, dict[tuple[str, int], int]] | None = None
        self._skipped: Position | None = None

    def cut(self, start: Position, end: Position, rows_max: int) -> Cut:
        compacted = self._log.compacted(self._topics)
        begin = self._begin(start)
        if start != START:
            self._check_tombstones(start)
        end = self._before_trim(start, end)
        end = end.joined(compacted)
        found: dict[tuple[str, int], pa.Table] = {}
        for place in self._places():
            first: Start = begin.get(place, start)
            if first == START:
                first = "earliest"
            records = self._next(place, first, end, rows_max, compacted)
            if records is not None:
                found[place] = records
        commits = np.concatenate([records[COMMIT].to_numpy() for records in found.values()] or [np.zeros(0)])
        if len(commits) > SMALL_ROWS:
            rows_max = min(rows_max, max(SMALL_ROWS, BATCH_BYTES_MAX // self._record_bytes()))
        if len(commits) >= rows_max:
            last = int(np.partition(commits, rows_max - 1)[rows_max - 1])
            end = commit_position(last).joined(compacted)
            cut = {place: _up_to(records, end) for place, records in found.items()}
            found = {place: records for place, records in cut.items() if records.num_rows}
        ends = {place: _range_of(place, records).end for place, records in found.items()}
        trims = self._trims(end) if self._log.followers.has_trims() else {}
        found = {place: _from(records, trims.get(place, 0)) for place, records in found.items()}
        ranges = [_range_of(place, records) for place, records in found.items() if records.num_rows]
        forgotten = self._forgotten(start, trims, begin)
        self._reached = (end, {**begin, **ends})
        rows = sum(records.num_rows for records in found.values())
        times = [pc.max(records[AT]).as_py() for records in found.values() if records.num_rows]
        return Cut(end, rows, max(times, default=None), ranges, forgotten)

    def begin(self, start: Position, offsets: Mapping[tuple[str, int], int]) -> None:
        self._reached, self._skipped = (start, dict(offsets)), start

    def _before_trim(self, start: Position, end: Position) -> Position:
        """The end of a batch that has either records or one commit that trims topics, so that what is forgotten has
        been read by an earlier one."""
        trim = self._log.followers.first_trim(self._forgetting, start, end)
        if trim is None:
            return end
        before = commit_position(commit_of(trim) - 1)
        return trim if before <= start else before

    def _check_tombstones(self, start: Position) -> None:
        """Raises `PositionGone` if compaction has dropped tombstones that come after a position."""
        for topic, dropped in self._log.followers.tombstones_dropped(self._topics, start).items():
            if start != self._skipped:
                raise PositionGone(topic, str(start), str(dropped), "compaction")

    def _trims(self, at: Position) -> dict[tuple[str, int], int]:
        """From where on each partition counts at a position."""
        followers = self._log.followers
        return {
            (topic, partition): first
            for topic in self._forgetting
            for partition, first in followers.trimmed(topic, at).items()
        }

    def _forgotten(
        self, start: Position, trims: Mapping[tuple[str, int], int], begin: Mapping[tuple[str, int], int]
    ) -> list[OffsetRange]:
        """The records of earlier batches that do not count any more, whether they are still there or not."""
        found = []
        before = self._trims(start) if trims else {}
        for (topic, partition), until in trims.items():
            first = before.get((topic, partition), 0)
            if first < until:
                read = begin.get((topic, partition))
                if read is None:
                    read = self._log.offsets(topic, at=start)[partition][1]
                found.append(OffsetRange(topic, partition, first, max(first, min(until, read))))
        return [one for one in found if one.first < one.end]

    def _record_bytes(self) -> int:
        """About how much memory a record takes."""
        segments = [segment for topic in self._topics for segment in self._log.segments(topic)]
        sizes = [segment.bytes * (SEALED_FACTOR if segment.state == "sealed" else 1) for segment in segments]
        return max(1, sum(sizes) // max(1, sum(segment.rows for segment in segments)))

    def _places(self) -> list[tuple[str, int]]:
        return [(name, number) for name in self._topics for number in range(self._log.topic(name).partitions)]

    def _begin(self, start: Position) -> dict[tuple[str, int], int]:
        """Where records after a position begin, as far as that is known."""
        return self._reached[1] if self._reached is not None and self._reached[0] == start else {}

    def _next(
        self, place: tuple[str, int], start: Start, end: Position, rows_max: int, compacted: Position
    ) -> pa.Table | None:
        """Commits, times and offsets of a partition's next records: about as many as fit, or all up to the end."""
        topic, partition = place
        found: list[pa.Table] = []
        rows = 0
        columns = [COMMIT, AT, OFFSET]
        for batch in self._log.batches(topic, start=start, end=end, columns=columns, partition=partition):
            found.append(batch.records)
            rows += batch.records.num_rows
            if rows >= rows_max and batch.records[COMMIT][-1].as_py() > commit_of(compacted):
                break
        return pa.concat_tables(found) if found else None


def _up_to(records: pa.Table, end: Position) -> pa.Table:
    """The records of a partition up to a commit; they are in its order."""
    return records.slice(0, int(np.searchsorted(records[COMMIT].to_numpy(), commit_of(end), side="right")))


def _from(records: pa.Table, first: int) -> pa.Table:
    """The records of a partition from an offset on."""
    return records.slice(int(np.searchsorted(records[OFFSET].to_numpy(), first))) if first else records


def _range_of(place: tuple[str, int], records: pa.Table) -> OffsetRange:
    offsets = records[OFFSET].to_numpy()
    return OffsetRange(*place, int(offsets[0]), int(offsets[-1]) + 1)

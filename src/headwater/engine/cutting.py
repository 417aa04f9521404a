"""Cutting the log into batches: where a batch ends, so that it has about so many records, and where they are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headwater.engine.batch import Piece
from headwater.log.embedded.log import EmbeddedLog
from headwater.log.embedded.position import commit_of, commit_position
from headwater.model.position import Position

BATCH_BYTES_MAX = 256 << 20
"""A batch of large records is cut so that they take about so much memory."""
SMALL_ROWS = 100_000
"""Batches of up to so many records are not asked how large these are."""
SEALED_FACTOR = 3
"""How much larger records are in memory than in a sealed segment, more or less."""

COMMIT, AT, OFFSET = "_commit", "_at", "_offset"


@dataclass(frozen=True, slots=True)
class Cut:
    """The end of a batch, its records, how many they are, and when the last of them was committed."""

    end: Position
    records: int = 0
    committed_at: datetime | None = None
    pieces: Sequence[Piece] = ()


class Cutter:
    """Cuts the records of some topics into batches. It remembers where the last one ended in each partition."""

    def __init__(self, log: EmbeddedLog, topics: Sequence[str]) -> None:
        self._log, self._topics = log, topics
        self._reached: tuple[Position, dict[tuple[str, int], int]] | None = None

    def cut(self, start: Position, end: Position, rows_max: int) -> Cut:
        """A batch that ends with the commit which brings it to `rows_max` records, or at `end`.

        It ends no earlier than compaction has been: before that, records are missing that were newer ones' forerunners.
        """
        compacted = self._log.compacted(self._topics)
        end = end.joined(compacted)
        begin = self._begin(start)
        found: dict[tuple[str, int], pa.Table] = {}
        for place in self._places():
            records = self._next(place, begin.get(place, start), end, rows_max, compacted)
            if records is not None:
                found[place] = records
        commits = np.concatenate([records[COMMIT].to_numpy() for records in found.values()] or [np.zeros(0)])
        if len(commits) > SMALL_ROWS:
            rows_max = min(rows_max, max(SMALL_ROWS, BATCH_BYTES_MAX // self._record_bytes()))
        if len(commits) >= rows_max:
            last = int(np.partition(commits, rows_max - 1)[rows_max - 1])
            end = commit_position(last).joined(compacted)
            cut = {place: up_to(records, end) for place, records in found.items()}
            found = {place: records for place, records in cut.items() if records.num_rows}
        pieces = [_piece(place, records) for place, records in found.items()]
        self._reached = (end, {**begin, **{(piece.topic, piece.partition): piece.end for piece in pieces}})
        rows = sum(records.num_rows for records in found.values())
        times = [pc.max(records[AT]).as_py() for records in found.values()]
        return Cut(end, rows, max(times, default=None), pieces)

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
        self, place: tuple[str, int], start: Position | int, end: Position, rows_max: int, compacted: Position
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


def up_to(records: pa.Table, end: Position) -> pa.Table:
    """The records of a partition up to a commit; they are in its order."""
    return records.slice(0, int(np.searchsorted(records[COMMIT].to_numpy(), commit_of(end), side="right")))


def _piece(place: tuple[str, int], records: pa.Table) -> Piece:
    offsets = records[OFFSET].to_numpy()
    return Piece(*place, int(offsets[0]), int(offsets[-1]) + 1)

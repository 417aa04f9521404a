"""Cutting the log into batches: where a batch ends, so that it has about so many records."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headwater.log.embedded import EmbeddedLog
from headwater.model.position import Position
from headwater.model.types import CommitNumber

COMMIT, AT = "_commit", "_at"


@dataclass(frozen=True, slots=True)
class Cut:
    """The end of a batch, how many records it has, and when the last of them was committed."""

    end: Position
    records: int
    committed_at: datetime | None


def cut(log: EmbeddedLog, topics: Sequence[str], start: Position, end: Position, rows_max: int) -> Cut:
    """A batch that ends with the commit which brings it to `rows_max` records, or at `end`."""
    found = [table for topic in topics for table in _next(log, topic, start, end, rows_max)]
    if not found:
        return Cut(end, 0, None)
    records = pa.concat_tables(found)
    commits = records[COMMIT].to_numpy()
    if len(commits) >= rows_max:
        last = int(np.partition(commits, rows_max - 1)[rows_max - 1])
        records = records.filter(pa.array(commits <= last))
        end = Position(CommitNumber(last))
    return Cut(end, records.num_rows, pc.max(records[AT]).as_py())


def _next(log: EmbeddedLog, topic: str, start: Position, end: Position, rows_max: int) -> list[pa.Table]:
    """The commits of a topic's next records: of each partition so many, or all up to the end."""
    found: list[pa.Table] = []
    rows: dict[int, int] = {}
    for batch in log.batches(topic, start=start, end=end, columns=[COMMIT, AT]):
        if rows.get(batch.partition, 0) < rows_max:
            rows[batch.partition] = rows.get(batch.partition, 0) + batch.records.num_rows
            found.append(batch.records.select([COMMIT, AT]))
    return found

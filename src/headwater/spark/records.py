"""Reading the log in a task: its share of the records that a batch covers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import pyarrow as pa

from headwater.engine.batch import Batch
from headwater.engine.cutting import COMMIT, OFFSET, up_to
from headwater.log.embedded.log import EmbeddedLog, open_log
from headwater.model.position import Position


@dataclass(frozen=True, slots=True)
class StageSource:
    """A source as a worker needs it: a topic and its columns, or constant rows."""

    number: int
    topic: str | None
    constant: pa.Table | None
    columns: tuple[str, ...]


def read(sources: Sequence[StageSource], batch: Batch, task: int) -> Iterator[tuple[int, pa.Table]]:
    """The rows of sources that are a task's share, each with the number of its source; a topic is read once for all."""
    topics: dict[str, list[StageSource]] = {}
    for source in sources:
        if source.topic is not None:
            topics.setdefault(source.topic, []).append(source)
        elif source.constant is not None and batch.first and task == 0:
            yield source.number, source.constant
    for topic, readers in topics.items():
        columns = list(dict.fromkeys(name for source in readers for name in source.columns))
        for records in _read(topic, columns, batch, task):
            for source in readers:
                yield source.number, records.select(list(source.columns))


def _read(topic: str, columns: Sequence[str], batch: Batch, task: int) -> Iterator[pa.Table]:
    """A task's share of a topic's records in a batch: these columns and perhaps others."""
    # A worker outlives a log that is deleted and made again in the same place.
    log, end = _log(batch.log, Path(batch.log, "catalog.db").stat().st_ino), Position.parse(batch.end)
    wanted = list(dict.fromkeys([*columns, OFFSET, COMMIT]))
    for piece in (piece.share(task, batch.tasks) for piece in batch.pieces if piece.topic == topic):
        for found in log.batches(topic, start=piece.first, end=piece.end, columns=wanted, partition=piece.partition):
            yield _without(up_to(found.records, end), topic, piece.partition, batch)


def _without(records: pa.Table, topic: str, partition: int, batch: Batch) -> pa.Table:
    """The records that are not excluded."""
    for excluded_topic, excluded_partition, first, last in batch.excluded:
        if excluded_topic == topic and excluded_partition == partition:
            offsets = records[OFFSET].to_numpy()
            records = records.filter(pa.array((offsets < first) | (offsets > last)))
    return records


@lru_cache(maxsize=4)
def _log(directory: str, _inode: int) -> EmbeddedLog:
    return open_log(directory, create=False, upkeep=False)

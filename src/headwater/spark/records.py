"""Reading the log in a task: its share of the records that a batch covers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

import pyarrow as pa

from headwater.engine.batch import Batch
from headwater.log.opening import open_log
from headwater.log.port import Log

OFFSET = "_offset"


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
    log, wanted = _log(*batch.log), list(dict.fromkeys([*columns, OFFSET]))
    for part in (one.share(task, batch.tasks) for one in batch.ranges if one.topic == topic):
        for found in log.batches(topic, start=part.first, end=part.end, columns=wanted, partition=part.partition):
            yield _without(found.records, topic, part.partition, batch)


def _without(records: pa.Table, topic: str, partition: int, batch: Batch) -> pa.Table:
    """The records that are not excluded."""
    for excluded_topic, excluded_partition, first, last in batch.excluded:
        if excluded_topic == topic and excluded_partition == partition:
            offsets = records[OFFSET].to_numpy()
            records = records.filter(pa.array((offsets < first) | (offsets > last)))
    return records


@lru_cache(maxsize=4)
def _log(url: str, _identity: str) -> Log:
    return open_log(url, create=False, upkeep=False)

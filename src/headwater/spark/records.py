"""Reading the log in a task: its share of the records that a batch covers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import pyarrow as pa

from headwater.engine.batch import Batch
from headwater.engine.lateness import LATE_BY, NEVER, REASON, WATERMARK, LateRecords
from headwater.log.cutting import OffsetRange
from headwater.log.opening import open_log
from headwater.log.port import Log
from headwater.model.position import Position
from headwater.views.identity import number_keys
from headwater.views.zset import WEIGHT

OFFSET, DELETED = "_offset", "_deleted"
_TOLD = (WATERMARK, LATE_BY, REASON)
_TIME = pa.timestamp("us", tz="UTC")


@dataclass(frozen=True, slots=True)
class StageSource:
    """A source as a worker needs it: a topic and its columns, or constant rows. `dropped`: its late records."""

    number: int
    topic: str | None
    constant: pa.Table | None
    columns: tuple[str, ...]
    dropped: bool = False


def read(sources: Sequence[StageSource], batch: Batch, task: int) -> Iterator[tuple[int, pa.Table]]:
    """The rows of sources that are a task's share, each with the number of its source; a topic is read once for all."""
    topics: dict[str, list[StageSource]] = {}
    for source in sources:
        if source.topic is not None:
            topics.setdefault(source.topic, []).append(source)
        elif source.constant is not None and batch.first and task == 0:
            yield source.number, source.constant
    for topic, readers in topics.items():
        late = batch.late.get(topic)
        judged = [] if late is None else late.columns
        named = [name for source in readers for name in source.columns if not source.dropped or name not in _TOLD]
        columns = list(dict.fromkeys([*named, *judged]))
        for records in _read(topic, columns, batch, task):
            on_time, dropped = (records, None) if late is None else divided(records, late)
            for source in readers:
                rows = dropped if source.dropped else on_time
                if rows is not None:
                    yield source.number, rows.select(list(source.columns))
        for records in _forgotten(topic, columns, batch, task):
            added = [WEIGHT] if WEIGHT in records.column_names else []
            for source in readers:
                if not source.dropped:
                    yield source.number, records.select([*source.columns, *added])


def divided(records: pa.Table, late: LateRecords) -> tuple[pa.Table, pa.Table | None]:
    """The records that are on time, and those that are dropped, with what SQL is told of them; None without any."""
    found = late.found(records)
    if not found.flags.any():
        return records, None
    dropped = records.filter(pa.array(found.flags))
    times = dropped[late.event_time].cast(_TIME).cast(pa.int64()).to_numpy()
    at = pa.array(found.watermarks, mask=found.watermarks == NEVER).cast(_TIME)
    late_by = pa.array((found.watermarks - times) / 1e6, mask=~found.late)
    reason = pa.array(np.where(found.late, "late", "future"), pa.string())
    told = dropped.append_column(WATERMARK, at).append_column(LATE_BY, late_by).append_column(REASON, reason)
    return records.filter(pa.array(~found.flags)), told


def _read(topic: str, columns: Sequence[str], batch: Batch, task: int) -> Iterator[pa.Table]:
    """A task's share of a topic's records in a batch: these columns and perhaps others."""
    # A worker outlives a log that is deleted and made again in the same place.
    log, wanted = _log(*batch.log), list(dict.fromkeys([*columns, OFFSET]))
    for part in (one.share(task, batch.tasks) for one in batch.ranges if one.topic == topic):
        for found in log.batches(topic, start=part.first, end=part.end, columns=wanted, partition=part.partition):
            yield _without(found.records, topic, part.partition, batch)


def _forgotten(topic: str, columns: Sequence[str], batch: Batch, task: int) -> Iterator[pa.Table]:
    """A task's share of the records that do not count any more: of a stream retracted, of a table as tombstones."""
    log, wanted = _log(*batch.log), list(dict.fromkeys([*columns, OFFSET]))
    for one in batch.forgotten:
        part = one.share(task, batch.tasks)
        if one.topic != topic or part.first >= part.end:
            continue
        key = log.topic(topic).key
        newer = _keys(log, one, key, batch) if key else None
        for found in log.batches(topic, start=part.first, end=part.end, columns=wanted, partition=part.partition):
            records = _without(found.records, topic, part.partition, batch)
            if newer is None:
                yield records.append_column(WEIGHT, pa.array(np.full(records.num_rows, -1, dtype=np.int64)))
            else:
                yield _deleted(records, key, newer)


def _keys(log: Log, forgotten: OffsetRange, key: Sequence[str], batch: Batch) -> pa.Table:
    """The keys of a partition that have a newer record than those that are forgotten."""
    rest = log.batches(
        forgotten.topic, start=forgotten.end, end=Position.parse(batch.end), columns=[*key, OFFSET],
        partition=forgotten.partition,
    )  # fmt: skip
    found = [_without(one.records, forgotten.topic, forgotten.partition, batch).select(list(key)) for one in rest]
    return pa.concat_tables(found) if found else log.topic(forgotten.topic).schema.empty_table().select(list(key))


def _deleted(records: pa.Table, key: Sequence[str], newer: pa.Table) -> pa.Table:
    """Tombstones in place of records, of those keys that have no newer one."""
    old, new = number_keys([records, newer], [tuple(key), tuple(key)])
    left = records.filter(pa.array(~np.isin(old, new)))
    return left.set_column(left.column_names.index(DELETED), DELETED, pa.array(np.ones(left.num_rows, dtype=bool)))


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

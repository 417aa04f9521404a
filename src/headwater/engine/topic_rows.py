"""Topics as queries read them: a stream's records, or the newest row per key of a table, at a position."""

from __future__ import annotations

import time
from collections.abc import Sequence
from datetime import timedelta

import pyarrow as pa
import pyarrow.compute as pc

from headwater.errors import NotYet, PositionGone
from headwater.log.keys import newest_rows
from headwater.log.port import Log
from headwater.log.topic import Topic
from headwater.model.position import Position

_OFFSET, _DELETED = "_offset", "_deleted"


class TopicRows:
    """The topics of a log, for queries."""

    def __init__(self, log: Log) -> None:
        self._log = log

    def names(self) -> list[str]:
        """All topics."""
        return [topic.name for topic in self._log.topics()]

    def position(self, at_least: Position | None, timeout: timedelta) -> Position:
        """Where the log is, once it is at a position. Raises `NotYet`."""
        deadline = time.monotonic() + timeout.total_seconds()
        reached = self._log.position()
        while at_least is not None and not at_least <= reached:
            left = deadline - time.monotonic()
            if left <= 0:
                raise NotYet(str(at_least), str(reached), timeout.total_seconds(), of_log=True)
            reached = self._log.wait(reached, timedelta(seconds=left))
        return reached

    def bytes(self, names: Sequence[str]) -> int:
        """The size of what the log keeps of some topics."""
        return sum(size.bytes for name in names for size in self._log.sizes(name))

    def read(self, name: str, at: Position, system: Sequence[str] = ()) -> pa.Table:
        """What a topic held at a position: its columns, and these system columns.

        Raises `PositionGone` if compaction has removed what a table held then.
        """
        topic = self._log.topic(name)
        columns = [*topic.schema.names, *system]
        if not topic.key:
            return self._log.scan(name, end=at, columns=columns)
        if not system:
            return self._log.table(name, at=at)
        found = pa.concat_tables([self._newest(topic, number, at, columns) for number in range(topic.partitions)])
        compacted = self._log.compacted([name])
        if not compacted <= at:
            raise PositionGone(name, str(at), str(compacted), "compaction")
        return found

    def _newest(self, topic: Topic, partition: int, at: Position, columns: Sequence[str]) -> pa.Table:
        """The newest record of each key of a partition, where it is no tombstone: a key's records are in one."""
        read = list(dict.fromkeys([*columns, _OFFSET, _DELETED]))
        batches = self._log.batches(topic.name, end=at, columns=read, partition=partition)
        records = [batch.records.select(read) for batch in batches]
        if not records:
            return self._log.scan(topic.name, start=0, end=0, columns=list(columns))
        found = pa.concat_tables(records).combine_chunks()
        newest = newest_rows(found, topic.key, _OFFSET)
        kept = found.take(pa.array(found[_OFFSET].to_numpy().searchsorted(newest)))
        return kept.filter(pc.invert(kept[_DELETED])).select(list(columns))

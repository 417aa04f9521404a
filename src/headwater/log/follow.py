"""Reading topics: ranges of offsets, times and positions, in batches or record by record, ending or following."""

from __future__ import annotations

import heapq
import time
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa

from headwater.errors import PositionGone, UsageError
from headwater.log.catalog import Catalog
from headwater.log.port import End, Start
from headwater.log.reader import Batch, PartitionReader
from headwater.log.registry import Registry
from headwater.log.sealed import AT, COMMIT
from headwater.log.segments import partition_range
from headwater.log.topic import Topic
from headwater.log.wake import Wake
from headwater.model.position import Position
from headwater.model.record import Record
from headwater.model.types import CommitNumber, Offset


class Follower:
    """One reading of one or several topics: where it is in each partition, and where it ends."""

    def __init__(
        self,
        directory: Path,
        catalog: Catalog,
        registry: Registry,
        wake: Wake,
        topics: str | Sequence[str],
        *,
        start: Start = "earliest",
        end: End | None = None,
        columns: Sequence[str] | None = None,
    ) -> None:
        self._catalog, self._wake = catalog, wake
        names = [topics] if isinstance(topics, str) else list(dict.fromkeys(topics))
        chosen = [registry.topic(name) for name in names]
        for topic in chosen:
            _check_columns(topic, columns)
        self._readers = [
            PartitionReader(directory, catalog, registry, topic, partition, columns)
            for topic in chosen
            for partition in range(topic.partitions)
        ]
        self._until_commit = int(end.commit) if isinstance(end, Position) else None
        if self._until_commit is not None:
            for topic in chosen:
                check_not_compacted(catalog, topic, self._until_commit)
        self._next = [_start(catalog, reader, start) for reader in self._readers]
        self._until = [_end(reader, end) for reader in self._readers]

    def batches(self, *, follow: bool = False, patience: timedelta | None = None) -> Iterator[Batch]:
        """Each partition's records in order; every round ends at one commit in all partitions."""
        for limit in self._rounds(follow=follow, patience=patience):
            for index in range(len(self._readers)):
                yield from self._round(index, limit)

    def records(self, *, follow: bool = False, patience: timedelta | None = None) -> Iterator[Record]:
        """All records in commit order."""
        for limit in self._rounds(follow=follow, patience=patience):
            streams = [self._keyed(index, limit) for index in range(len(self._readers))]
            yield from (record for _, record in heapq.merge(*streams, key=lambda pair: pair[0]))

    def close(self) -> None:
        for reader in self._readers:
            reader.close()

    def _rounds(self, *, follow: bool, patience: timedelta | None) -> Iterator[int]:
        """The commits up to which to read, one after the other; waits between them."""
        try:
            done = -1
            while True:
                ticket = self._wake.ticket() if follow else 0
                now = self._catalog.position()
                limit = now if self._until_commit is None else min(now, self._until_commit)
                if limit > done:
                    yield limit
                    done = limit
                if not follow or self._finished(now):
                    return
                if not self._wait(ticket, now, patience):
                    return
        finally:
            self.close()

    def _wait(self, ticket: int, seen: int, patience: timedelta | None) -> bool:
        left = float("inf") if patience is None else patience.total_seconds()
        return wait_past(self._catalog, self._wake, ticket, seen, left)

    def _finished(self, now: int) -> bool:
        if self._until_commit is not None and now >= self._until_commit:
            return True
        pairs = zip(self._next, self._until, strict=True)
        return all(until is not None and offset >= until for offset, until in pairs)

    def _round(self, index: int, limit: int) -> Iterator[Batch]:
        reader, until = self._readers[index], self._until[index]
        while until is None or self._next[index] < until:
            batch = reader.read(self._next[index], until_commit=limit, until_offset=until)
            if batch is None:
                return
            self._next[index] = batch.next_offset
            yield batch

    def _keyed(self, index: int, limit: int) -> Iterator[tuple[tuple[int, int, int], Record]]:
        for batch in self._round(index, limit):
            for record in records_of(self._readers[index].topic, batch):
                yield (record.position.commit, index, record.offset), record


def wait_past(catalog: Catalog, wake: Wake, ticket: int, seen: int, seconds: float) -> bool:
    """Whether the log moved past a commit within so many seconds. The ticket was taken before `seen` was read."""
    until = time.monotonic() + seconds
    while catalog.position() <= seen:
        left = until - time.monotonic()
        if left <= 0:
            return False
        wake.wait(ticket, left)
        ticket = wake.ticket()
    return True


def records_of(topic: Topic, batch: Batch) -> Iterator[Record]:
    """A batch that has all columns, record by record."""
    table = batch.records
    names = topic.schema.names
    columns = [table[name].to_pylist() for name in names]
    keys = [names.index(column) for column in topic.key]
    system = [table[name].to_pylist() for name in ("_offset", "_commit", "_at", "_deleted", "_headers")]
    for row, (offset, commit, at, deleted, headers) in zip(
        zip(*columns, strict=True), zip(*system, strict=True), strict=True
    ):
        key = None if not keys else row[keys[0]] if len(keys) == 1 else tuple(row[i] for i in keys)
        value = None if deleted else dict(zip(names, row, strict=True))
        yield Record(
            topic.name, batch.partition, Offset(offset), Position(CommitNumber(commit)), at, key, value,
            dict(headers) if headers else {},
        )  # fmt: skip


def microseconds(at: datetime) -> int:
    """Since 1970; a time without a zone is UTC."""
    zoned = at if at.tzinfo is not None else at.replace(tzinfo=UTC)
    return int(pa.scalar(zoned, AT.type).value)


def check_not_compacted(catalog: Catalog, topic: Topic, commit: int) -> None:
    """Raises `PositionGone` if a read at that commit would miss what compaction removed since."""
    with catalog.read() as tx:
        row = tx.execute("SELECT max(compacted_commit) FROM partitions WHERE topic_id = ?", (topic.id,)).fetchone()
    if row[0] > commit:
        raise PositionGone(topic.name, commit, row[0], "compaction")


def _check_not_deleted(catalog: Catalog, reader: PartitionReader, commit: int) -> None:
    """Raises `PositionGone` if retention deleted records that came after the commit."""
    with catalog.read() as tx:
        row = tx.execute(
            "SELECT deleted_commit FROM partitions WHERE topic_id = ? AND partition = ?",
            (reader.topic.id, reader.partition),
        ).fetchone()
    if row is not None and row[0] > commit:
        raise PositionGone(reader.topic.name, commit, row[0], "retention")


def _start(catalog: Catalog, reader: PartitionReader, start: Start) -> int:
    if isinstance(start, Position):
        _check_not_deleted(catalog, reader, start.commit)
        return reader.seek(COMMIT.name, start.commit)
    if isinstance(start, datetime):
        return reader.seek(AT.name, microseconds(start))
    if isinstance(start, Mapping):
        return start.get(reader.partition, 0)
    if isinstance(start, int):
        return start
    if start not in ("earliest", "latest"):
        raise UsageError(
            f"{start!r} is not a place to start.",
            hint="Use 'earliest', 'latest', an offset, a datetime or a Position.",
        )
    with catalog.read() as tx:
        first, end = partition_range(tx, reader.topic, reader.partition)
    return first if start == "earliest" else end


def _end(reader: PartitionReader, end: End | None) -> int | None:
    if isinstance(end, datetime):
        return reader.seek(AT.name, microseconds(end))
    if isinstance(end, Mapping):
        return end.get(reader.partition)
    return end if isinstance(end, int) else None


def _check_columns(topic: Topic, columns: Sequence[str] | None) -> None:
    known = [*topic.schema.names, "_partition", "_offset", "_commit", "_at", "_deleted", "_headers"]
    for name in columns or ():
        if name not in known:
            raise UsageError(f"Topic {topic.name!r} has no column {name!r}.", hint=f"Columns: {', '.join(known)}.")

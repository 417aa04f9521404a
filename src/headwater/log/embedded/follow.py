"""Reading topics: ranges of offsets, times and positions, in batches or record by record, ending or following."""

from __future__ import annotations

import heapq
import time
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime

import pyarrow as pa

from headwater.errors import PositionGone, UsageError
from headwater.log.catalog import Catalog, OpenReader, Reader, Wakes
from headwater.log.embedded.position import commit_of, commit_position
from headwater.log.embedded.registry import Registry
from headwater.log.embedded.sealed import AT, COMMIT
from headwater.log.port import End, Start
from headwater.log.reading import FILES_OPEN_MAX, Batch
from headwater.log.topic import Topic
from headwater.model.durations import Duration, seconds_of
from headwater.model.position import Position
from headwater.model.record import Record
from headwater.model.types import Offset
from headwater.system.clock import Clock, microseconds

# How many records are turned into Python objects before the first of them is handed on.
RECORDS_AT_ONCE = 1000


class Follower:
    """One reading of one or several topics: where it is in each partition, and where it ends."""

    def __init__(
        self,
        open_reader: OpenReader,
        catalog: Catalog,
        registry: Registry,
        wake: Wakes,
        clock: Clock,
        topics: str | Sequence[str],
        *,
        start: Start = "earliest",
        end: End | None = None,
        columns: Sequence[str] | None = None,
        partition: int | None = None,
    ) -> None:
        self._open_reader, self._catalog, self._registry, self._wake = open_reader, catalog, registry, wake
        self._clock, self._end, self._columns, self._partition = clock, end, columns, partition
        names = [topics] if isinstance(topics, str) else list(dict.fromkeys(topics))
        self._topics = [registry.topic(name) for name in names]
        self._until_commit = commit_of(end) if isinstance(end, Position) else None
        for topic in self._topics:
            _check_columns(topic, columns)
            _check_partition(topic, partition)
            check_place(topic, start)
            _check_end(topic, end)
            if self._until_commit is not None:
                check_not_compacted(catalog, topic, self._until_commit)
        self._readers: list[Reader] = []
        self._next: list[int] = []
        self._until: list[int | None] = []
        if start == "latest":
            # The ends of the partitions, looked up one after the other, could cut through a commit.
            start = commit_position(catalog.position())
        for topic in self._topics:
            self._take_in(topic, range(topic.partitions), start)

    def batches(self, *, follow: bool = False, idle_timeout: Duration | None = None) -> Iterator[Batch]:
        """Each partition's records in order; every round ends at one commit in all partitions."""
        for limit in self._rounds(follow=follow, idle_timeout=idle_timeout):
            for index in range(len(self._readers)):
                yield from self._round(index, limit)

    def records(self, *, follow: bool = False, idle_timeout: Duration | None = None) -> Iterator[Record]:
        """All records in commit order."""
        for limit in self._rounds(follow=follow, idle_timeout=idle_timeout):
            streams = [self._keyed(index, limit) for index in range(len(self._readers))]
            yield from (record for _, record in heapq.merge(*streams, key=lambda pair: pair[0]))

    def close(self) -> None:
        for reader in self._readers:
            reader.close()

    def _take_in(self, topic: Topic, partitions: range, start: Start) -> None:
        for partition in partitions:
            if self._partition not in (None, partition):
                continue
            reader = self._open_reader(topic, partition, self._columns)
            self._readers.append(reader)
            self._next.append(first_offset(self._catalog, reader, start))
            self._until.append(_end(reader, self._end))

    def _take_in_what_is_new(self) -> None:
        """Partitions that were added since, from their beginning; and where in each an end in time lies by now."""
        for index, known in enumerate(self._topics):
            topic = self._registry.topic(known.name)
            if topic.id == known.id and topic.partitions > known.partitions:
                self._take_in(topic, range(known.partitions, topic.partitions), "earliest")
                self._topics[index] = topic
        if isinstance(self._end, datetime):
            self._until = [_end(reader, self._end) for reader in self._readers]

    def _rounds(self, *, follow: bool, idle_timeout: Duration | None) -> Iterator[int]:
        """The commits up to which to read, one after the other; waits between them."""
        try:
            done = -1
            while True:
                ticket = self._wake.ticket() if follow else 0
                now = self._catalog.position()
                if not follow:
                    check_reached(self._end, now)
                else:
                    self._take_in_what_is_new()
                limit = now if self._until_commit is None else min(now, self._until_commit)
                if limit > done:
                    yield limit
                    done = limit
                    self._check_not_overtaken()
                if not follow or self._finished(now):
                    return
                if not self._wait(ticket, now, idle_timeout):
                    return
        finally:
            self.close()

    def _check_not_overtaken(self) -> None:
        """Raises `PositionGone` if compaction has removed records before the end since the reading began."""
        if self._until_commit is not None:
            for topic in self._topics:
                check_not_compacted(self._catalog, topic, self._until_commit)

    def _wait(self, ticket: int, seen: int, idle_timeout: Duration | None) -> bool:
        left = float("inf") if idle_timeout is None else seconds_of("idle_timeout", idle_timeout)
        if isinstance(self._end, datetime):
            to_end = max(0.0, (microseconds(self._end) - self._clock.now()) / 1e6)
            if to_end < left:
                wait_past(self._catalog, self._wake, ticket, seen, to_end)
                return True
        return wait_past(self._catalog, self._wake, ticket, seen, left)

    def _finished(self, now: int) -> bool:
        if self._until_commit is not None and now >= self._until_commit:
            return True
        if isinstance(self._end, datetime):
            latest = max(self._catalog.committed_at(), self._clock.now())
            if latest < microseconds(self._end):
                return False
        pairs = zip(self._next, self._until, strict=True)
        return all(until is not None and offset >= until for offset, until in pairs)

    def _round(self, index: int, limit: int) -> Iterator[Batch]:
        reader, until = self._readers[index], self._until[index]
        while until is None or self._next[index] < until:
            batch = reader.read(self._next[index], until_commit=limit, until_offset=until)
            if len(self._readers) > FILES_OPEN_MAX:
                reader.release()
            if batch is None:
                # Records before the end that compaction removed never come, once there is one behind it.
                if until is not None and reader.read(until, until_commit=limit) is not None:
                    self._next[index] = until
                return
            self._next[index] = batch.next_offset
            yield batch

    def _keyed(self, index: int, limit: int) -> Iterator[tuple[tuple[int, int, int], Record]]:
        for batch in self._round(index, limit):
            for record in records_of(self._readers[index].topic, batch):
                yield (commit_of(record.position), index, record.offset), record


def wait_past(catalog: Catalog, wake: Wakes, ticket: int, seen: int, seconds: float) -> bool:
    """Whether the log moved past a commit within this many seconds. The ticket was taken before `seen` was read."""
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
    for start in range(0, batch.records.num_rows, RECORDS_AT_ONCE):
        yield from _records_of(topic, batch.partition, batch.records.slice(start, RECORDS_AT_ONCE))


def _records_of(topic: Topic, partition: int, table: pa.Table) -> Iterator[Record]:
    names = topic.schema.names
    columns = [table[name].to_pylist() for name in names]
    keys = [names.index(column) for column in topic.key]
    system = [table[name].to_pylist() for name in ("_offset", "_commit", "_received_at", "_deleted", "_headers")]
    for row, (offset, commit, at, deleted, headers) in zip(
        zip(*columns, strict=True), zip(*system, strict=True), strict=True
    ):
        key = None if not keys else row[keys[0]] if len(keys) == 1 else tuple(row[i] for i in keys)
        value = None if deleted else dict(zip(names, row, strict=True))
        yield Record(
            topic.name, partition, Offset(offset), commit_position(commit), at, key, value,
            dict(headers) if headers else {},
        )  # fmt: skip


def check_not_compacted(catalog: Catalog, topic: Topic, commit: int) -> None:
    """Raises `PositionGone` if a read at that commit would miss what compaction removed since."""
    compacted = catalog.compacted_commit(topic)
    if compacted > commit:
        raise PositionGone(topic.name, str(commit), str(compacted), "compaction")


def compacted_to(catalog: Catalog, topics: Sequence[Topic]) -> Position:
    """How far compaction has been in some topics."""
    return commit_position(max((catalog.compacted_commit(topic) for topic in topics), default=0))


def _check_not_deleted(catalog: Catalog, reader: Reader, commit: int) -> None:
    """Raises `PositionGone` if retention deleted records that came after the commit."""
    with catalog.read() as tx:
        row = tx.execute(
            "SELECT deleted_commit FROM partitions WHERE topic_id = ? AND partition = ?",
            (reader.topic.id, reader.partition),
        ).fetchone()
    if row is not None and row[0] > commit:
        raise PositionGone(reader.topic.name, str(commit), str(row[0]), "retention")


def first_offset(catalog: Catalog, reader: Reader, start: Start) -> int:
    """Where a partition is read from, for any place to start but the latest. Raises `PositionGone`."""
    if isinstance(start, Position):
        _check_not_deleted(catalog, reader, commit_of(start))
        return reader.seek(COMMIT.name, commit_of(start))
    if isinstance(start, datetime):
        return reader.seek(AT.name, microseconds(start))
    if isinstance(start, Mapping):
        return start[reader.partition] if reader.partition in start else reader.first()
    if isinstance(start, int) and not isinstance(start, bool) and start >= 0:
        return start
    if start != "earliest":
        raise UsageError(
            f"{start!r} is not a place to start.",
            hint="Use 'earliest', 'latest', an offset, a datetime or a Position.",
        )
    return reader.first()


def _end(reader: Reader, end: End | None) -> int | None:
    if isinstance(end, datetime):
        return reader.seek(AT.name, microseconds(end))
    if isinstance(end, Mapping):
        return end.get(reader.partition)
    return end if isinstance(end, int) else None


def check_place(topic: Topic, place: Start | End | None) -> None:
    """Raises `UsageError` for offsets in partitions that the topic does not have."""
    if isinstance(place, Mapping) and not place.keys() <= set(range(topic.partitions)):
        raise UsageError(f"Topic {topic.name!r} has partitions 0 to {topic.partitions - 1}, not {sorted(place)}.")


def _check_end(topic: Topic, end: End | None) -> None:
    """Raises `UsageError` for a place that cannot be meant."""
    if end is not None and (isinstance(end, bool) or not isinstance(end, (int, Mapping, datetime, Position))):
        raise UsageError(
            f"{end!r} is not a place to end.", hint="Use an offset, a dict of offsets, a datetime or a Position."
        )
    check_place(topic, end)


def _check_partition(topic: Topic, partition: int | None) -> None:
    if partition is not None and not 0 <= partition < topic.partitions:
        raise UsageError(f"Topic {topic.name!r} has partitions 0 to {topic.partitions - 1}, not {partition}.")


def check_reached(place: object, position: int) -> None:
    """Raises `UsageError` for a position that the log has not reached."""
    if isinstance(place, Position) and commit_of(place) > position:
        raise UsageError(
            f"The log is at position {position}, and not yet at {place}.", hint="log.wait waits for a position."
        )


def _check_columns(topic: Topic, columns: Sequence[str] | None) -> None:
    known = [*topic.schema.names, "_partition", "_offset", "_commit", "_received_at", "_deleted", "_headers"]
    for name in columns or ():
        if name not in known:
            raise UsageError(f"Topic {topic.name!r} has no column {name!r}.", hint=f"Columns: {', '.join(known)}.")

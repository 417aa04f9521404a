"""A log with a catalog: everything that does not depend on where its records are."""

from __future__ import annotations

import atexit
import os
import weakref
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from typing import Unpack, cast

import pyarrow as pa

from headwater.errors import PositionGone, RecordsGone, UsageError
from headwater.log.catalog import Catalog, Reader, Tails, Wakes
from headwater.log.commit import AppendPosition, Commit, Committed, OnConflict, Request
from headwater.log.consumer import Consumer
from headwater.log.dispatch import Dispatcher
from headwater.log.embedded.bookmarks import CatalogBookmarks
from headwater.log.embedded.follow import Follower, check_not_compacted, check_reached, compacted_to, wait_past
from headwater.log.embedded.group_admin import GroupAdmin
from headwater.log.embedded.group_lag import lag_of
from headwater.log.embedded.intake import Intake
from headwater.log.embedded.position import commit_of, commit_position
from headwater.log.embedded.registry import Registry
from headwater.log.embedded.segments import partition_range, select
from headwater.log.embedded.writer import Writer
from headwater.log.groups import Member, OffsetReset
from headwater.log.keys import newest_rows
from headwater.log.lag import Lag
from headwater.log.maintenance import Segment
from headwater.log.options import ConsumerOptions, ProducerOptions
from headwater.log.port import End, Log, Rows, Start
from headwater.log.producer import Producer
from headwater.log.reading import Batch
from headwater.log.size import PartitionSize
from headwater.log.topic import Topic
from headwater.model.durations import Duration, seconds_of
from headwater.model.evolution import conform
from headwater.model.position import Position
from headwater.model.record import Record
from headwater.system.clock import Clock, instant, microseconds
from headwater.system.names import check_name

# A table that compaction or retention has overtaken is read again, at a newer position, so often at most.
TABLE_TRIES_MAX = 10

_open_logs: weakref.WeakSet[CatalogedLog] = weakref.WeakSet()


class CatalogedLog(Log):
    """See `Log` for the contracts. An implementation says how records are written, read and cut, and what closes."""

    def _assemble(self, catalog: Catalog, tails: Tails, wake: Wakes, clock: Clock) -> None:
        """Puts the parts together; to be called before anything else."""
        self._pid, self._closed = os.getpid(), False
        self._catalog, self._wake, self._clock = catalog, wake, clock
        self._registry = Registry(catalog)
        self._writer = Writer(catalog, tails, wake, clock)
        # The position moves on, so that many short-lived processes do not all begin with the same partition.
        self._intake = Intake(self._registry, turn=catalog.position())
        self._groups = GroupAdmin(catalog, self._registry, wake, clock, self._reader, self._submit)
        self._dispatcher = Dispatcher(self._intake.prepare, self._writer.commit_all)
        _open_logs.add(self)

    def segments(self, topic: str) -> list[Segment]:
        """The segments that hold a topic's records now, by partition and offset."""
        found = self.topic(topic)
        with self._catalog.read() as tx:
            return select(tx, "topic_id = ? ORDER BY partition, base_offset", (found.id,))

    @abstractmethod
    def _reader(self, topic: Topic, partition: int, columns: Sequence[str] | None = None) -> Reader:
        """Opens a reader of a partition."""

    def topics(self) -> list[Topic]:
        self._check_open()
        return self._registry.topics()

    def topic(self, name: str) -> Topic:
        self._check_open()
        return self._registry.topic(name)

    def append(self, topic: str, rows: Rows, *, partition: int | None = None) -> AppendPosition:
        self._check_open()
        # Appends of several threads may share one commit; a commit of the caller's own making never does.
        with Commit(self._intake.prepare, self._submit, mergeable=True) as commit:
            rejected = commit.append(topic, rows, partition=partition)
        return AppendPosition(commit.position.counters, rejected)

    def commit(
        self,
        *,
        producer: Producer | None = None,
        sequence: int | None = None,
        headers: Mapping[str, str] | None = None,
        on_conflict: OnConflict = "raise",
    ) -> Commit:
        self._check_open()
        if (producer is None) != (sequence is None):
            raise UsageError("A commit is numbered by a producer and a sequence, together.")
        numbered = producer.sequence(sequence) if producer is not None and sequence is not None else None
        return Commit(self._intake.prepare, self._submit, sequence=numbered, headers=headers, on_conflict=on_conflict)

    def producer(
        self, topic: str | None = None, *, name: str | None = None, **options: Unpack[ProducerOptions]
    ) -> Producer:
        self._check_open()
        if topic is not None:
            self._registry.topic(topic)
        epoch = sequence = 0
        if name is not None:
            epoch, sequence = self._take_producer(check_name("producer", name))
        return Producer(self._dispatcher, topic=topic, name=name, epoch=epoch, sequence=sequence, **options)

    @property
    def bookmarks(self) -> CatalogBookmarks:
        self._check_open()
        return CatalogBookmarks(self._catalog)

    def position(self) -> Position:
        self._check_open()
        return commit_position(self._catalog.position())

    def between(self, start: Position, end: Position) -> Position | None:
        first, last = commit_of(start), commit_of(end)
        return commit_position((first + last) // 2) if last - first > 1 else None

    def offsets(self, topic: str, *, at: Position | None = None) -> dict[int, tuple[int, int]]:
        found = self.topic(topic)
        with self._catalog.read() as tx:
            ranges = {partition: partition_range(tx, found, partition) for partition in range(found.partitions)}
        if at is None:
            return ranges
        commit = commit_of(at)
        return {part: (first, self._reader(found, part).seek("_commit", commit)) for part, (first, _) in ranges.items()}

    def compacted(self, topics: Sequence[str]) -> Position:
        self._check_open()
        return compacted_to(self._catalog, [self.topic(name) for name in topics])

    def wait(self, after: Position, timeout: Duration) -> Position:
        self._check_open()
        wait_past(self._catalog, self._wake, self._wake.ticket(), commit_of(after), seconds_of("timeout", timeout))
        return self.position()

    def read(
        self,
        topics: str | Sequence[str],
        *,
        start: Start = "earliest",
        end: End | None = None,
        follow: bool = False,
        idle_timeout: Duration | None = None,
    ) -> Iterator[Record]:
        return self._follower(topics, start, end, None).records(follow=follow, idle_timeout=idle_timeout)

    def batches(
        self,
        topics: str | Sequence[str],
        *,
        start: Start = "earliest",
        end: End | None = None,
        follow: bool = False,
        idle_timeout: Duration | None = None,
        columns: Sequence[str] | None = None,
        partition: int | None = None,
    ) -> Iterator[Batch]:
        return self._follower(topics, start, end, columns, partition).batches(follow=follow, idle_timeout=idle_timeout)

    def scan(
        self,
        topic: str,
        *,
        start: Start = "earliest",
        end: End | None = None,
        columns: Sequence[str] | None = None,
    ) -> pa.Table:
        parts = [batch.records for batch in self.batches(topic, start=start, end=end, columns=columns)]
        # The topic may have been altered meanwhile: later parts are in a newer schema then.
        return _joined(parts, self._reader(self.topic(topic), 0, columns).empty())

    def table(self, topic: str, *, at: Position | None = None) -> pa.Table:
        found = self.topic(topic)
        if not found.key:
            raise UsageError(f"Topic {topic!r} has no key, so it is not a table.", hint="Create it with a key.")
        if at is not None:
            if not isinstance(at, Position):
                raise UsageError(f"A table is read at a Position, not at {at!r}.", hint="An append returns one.")
            check_reached(at, self._catalog.position())
            check_not_compacted(self._catalog, found, commit_of(at))
            return self._table(found, commit_of(at))
        for _ in range(TABLE_TRIES_MAX - 1):
            with suppress(PositionGone, RecordsGone):
                return self._table(found, self._catalog.position())
        return self._table(found, self._catalog.position())

    def _table(self, topic: Topic, commit: int) -> pa.Table:
        tables = []
        for partition in range(topic.partitions):
            # A key's records lie in one partition, where the offset orders them.
            with self._reader(topic, partition, [*topic.schema.names, "_offset", "_deleted"]) as reader:
                tables.append(_newest(reader, topic, commit))
        # A compaction that ran meanwhile may have removed a record for one that came after the commit.
        check_not_compacted(self._catalog, topic, commit)
        return _joined(tables, self._reader(self.topic(topic.name), 0, topic.schema.names).empty())

    def consumer(self, topics: str | Sequence[str], *, group: str, **options: Unpack[ConsumerOptions]) -> Consumer:
        self._check_open()
        return self._groups.consumer(topics, group, options)

    def groups(self) -> list[str]:
        self._check_open()
        return self._groups.names()

    def members(self, group: str) -> list[Member]:
        self._check_open()
        return self._groups.members(group)

    def reset_group(
        self,
        group: str,
        to: Start,
        *,
        topics: str | Sequence[str] | None = None,
        force: bool = False,
        dry_run: bool = False,
    ) -> list[OffsetReset]:
        self._check_open()
        return self._groups.reset(group, to, topics=topics, force=force, dry_run=dry_run)

    def delete_group(self, group: str, *, force: bool = False) -> None:
        self._check_open()
        self._groups.delete(group, force=force)

    def lag(self, group: str | None = None) -> list[Lag]:
        with self._catalog.read():
            topics = {topic.id: topic for topic in self.topics()}
            return lag_of(self._catalog, topics, group, self._clock.now(), self._received_at)

    def sizes(self, topic: str) -> list[PartitionSize]:
        found = self.topic(topic)
        held: dict[int, list[Segment]] = {partition: [] for partition in range(found.partitions)}
        for segment in self.segments(topic):
            held.setdefault(segment.partition, []).append(segment)
        return [_size(partition, segments) for partition, segments in held.items()]

    def first_after(self, topic: str, position: Position) -> datetime | None:
        found, first = self.topic(topic), dict[int, Segment]()
        for segment in self.segments(topic):
            if segment.last_commit > commit_of(position):
                first.setdefault(segment.partition, segment)
        times = [self._first_at(found, segment, position) for segment in first.values()]
        return min((at for at in times if at is not None), default=None)

    def _first_at(self, topic: Topic, segment: Segment, position: Position) -> datetime | None:
        if segment.first_commit > commit_of(position):
            return instant(segment.first_at)
        read = self.batches(topic.name, start=position, columns=["_received_at"], partition=segment.partition)
        first = next((batch.records["_received_at"][0].as_py() for batch in read), None)
        return cast("datetime | None", first)

    def positions(self, records: pa.Table) -> list[Position]:
        return [commit_position(number) for number in records["_commit"].to_pylist()]

    @property
    def identity(self) -> str:
        return self._catalog.identity

    def _submit(self, request: Request) -> Committed:
        self._check_open()
        return self._writer.commit(request)

    def _take_producer(self, name: str) -> tuple[int, int]:
        with self._catalog.write() as tx:
            row = tx.execute(
                "INSERT INTO producers VALUES (?, 1, 0, 0) ON CONFLICT DO UPDATE SET epoch = epoch + 1 "
                "RETURNING epoch, sequence",
                (name,),
            ).fetchone()
        return row[0], row[1]

    def _follower(
        self,
        topics: str | Sequence[str],
        start: Start,
        end: End | None,
        columns: Sequence[str] | None,
        partition: int | None = None,
    ) -> Follower:
        self._check_open()
        parts = (self._reader, self._catalog, self._registry, self._wake, self._clock)
        return Follower(*parts, topics, start=start, end=end, columns=columns, partition=partition)

    def _received_at(self, topic: Topic, partition: int, offset: int) -> int:
        with self._reader(topic, partition, ["_received_at"]) as reader:
            batch = reader.read(offset, until_offset=offset + 1)
        assert batch is not None, "there is a record at the offset"
        return microseconds(batch.records["_received_at"][0].as_py())

    def _check_open(self) -> None:
        if self._closed:
            raise UsageError("The log is closed.", hint="Open it again.")
        if self._pid != os.getpid():
            raise UsageError(
                "The log was opened by the parent process.", hint="Open it again in this one: headwater.open(path)."
            )


def _size(partition: int, segments: Sequence[Segment]) -> PartitionSize:
    times = (instant(segments[0].first_at), instant(segments[-1].last_at)) if segments else (None, None)
    records, size = sum(segment.rows for segment in segments), sum(segment.bytes for segment in segments)
    return PartitionSize(partition, records, size, len(segments), *times)


def _joined(parts: Sequence[pa.Table], empty: pa.Table) -> pa.Table:
    """All parts as one table with the columns of the empty one, which is in the newest schema."""
    return pa.concat_tables([empty, *(conform(part, empty.schema) for part in parts)])


def _newest(reader: Reader, topic: Topic, commit: int) -> pa.Table:
    parts, offset = list[pa.Table](), reader.first()
    while (batch := reader.read(offset, until_commit=commit)) is not None:
        parts.append(batch.records)
        offset = batch.next_offset
    records = _joined(parts, reader.empty())
    newest = newest_rows(records, topic.key, "_offset")
    kept = records.take(pa.array(records["_offset"].to_numpy().searchsorted(newest)))
    return kept.filter(pa.compute.invert(kept["_deleted"])).select(topic.schema.names)


@atexit.register
def _close_all() -> None:
    """What producers have taken is sent, also if a program ends without closing its logs."""
    for log in list(_open_logs):
        log.close()

"""The port of every log: what an application may rely on, whatever holds the records."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Literal, Self, TypeAlias, Unpack

import pyarrow as pa

from headwater.errors import UsageError
from headwater.log.bookmarks import Bookmarks
from headwater.log.commit import AppendPosition, Commit, OnConflict
from headwater.log.cutting import Cutter
from headwater.log.followers import Followers, NoFollowers
from headwater.log.maintenance import Maintenance
from headwater.log.reading import Batch
from headwater.log.size import PartitionSize
from headwater.log.times import CLOCK, advance, time_of, watermark_of
from headwater.log.topic import Topic
from headwater.model.durations import Duration
from headwater.model.position import Position
from headwater.model.record import AMENDED, Record

if TYPE_CHECKING:
    from headwater.log.consumer import Consumer
    from headwater.log.groups import Member, OffsetReset
    from headwater.log.lag import Lag
    from headwater.log.options import ConsumerOptions, ProducerOptions, TopicOptions
    from headwater.log.producer import Producer

Rows: TypeAlias = "pa.Table | pa.RecordBatch | Sequence[Mapping[str, object]] | bytes"
"""Records to append: Arrow, a list of dicts, or bytes that hold JSON lines."""

Start = Literal["earliest", "latest"] | int | Mapping[int, int] | datetime | Position
"""Where to begin: an offset in every partition, or one per partition; the first record received at or after a time;
the first record after a position."""

End = int | Mapping[int, int] | datetime | Position
"""Where to end: before an offset, before a time (of receipt), or with a position."""


class Log(ABC):
    """One ordered, replayable log. Every method may be called from any thread."""

    # Topics

    @abstractmethod
    def create(
        self,
        name: str,
        schema: str | pa.Schema,
        *,
        key: str | Sequence[str] | None = None,
        partitions: int = 1,
        partition_by: str | Sequence[str] | None = None,
        event_time: str | None = None,
        exist_ok: bool = False,
        **settings: Unpack[TopicOptions],
    ) -> Topic:
        """Creates a topic; its dead-letter topic, too, if that is missing.

        `schema` is Spark DDL or an Arrow schema. Records with equal values in the `key` columns go to one partition.
        `partition_by` does this for a topic without a key, which stays a stream; with a key it names a part of it.
        With `exist_ok`, a topic with the same definition is returned as it is. Raises `TopicExists`, `SchemaError`.
        """

    @abstractmethod
    def alter(
        self,
        name: str,
        *,
        schema: str | pa.Schema | None = None,
        partitions: int | None = None,
        **settings: Unpack[TopicOptions],
    ) -> Topic:
        """Evolves the schema (adds nullable columns, widens types), adds partitions to a topic that has neither a key
        nor `partition_by`, or changes settings. Raises `SchemaError` or `UsageError` with the reason for anything else,
        without changing anything."""

    @abstractmethod
    def drop(self, name: str) -> None:
        """Deletes a topic with all its records and group offsets."""

    @abstractmethod
    def topics(self) -> list[Topic]:
        """All topics, by name."""

    @abstractmethod
    def topic(self, name: str) -> Topic:
        """Raises `UnknownTopic`."""

    # Writing

    def append(self, topic: str, rows: Rows, *, partition: int | None = None) -> AppendPosition:
        """Appends records, all or none; they are durable when it returns.

        Raises `InvalidRecords` if one does not fit the schema, unless the topic has a dead-letter topic: then that
        record goes there and the rest is appended; the position's `rejected` says which ones, and why.
        """
        with self.commit() as commit:
            rejected = commit.append(topic, rows, partition=partition)
        return AppendPosition(commit.position.counters, rejected)

    def amend(self, topic: str, rows: Rows) -> AppendPosition:
        """Appends records that are never judged late, such as those of `late('topic')`, and so correct results.

        Of an Arrow table, columns that the topic does not have are left out. Raises as `append`.
        """
        if isinstance(rows, (pa.Table, pa.RecordBatch)):
            rows = rows.select([name for name in rows.schema.names if name in self.topic(topic).schema.names])
        with self.commit(headers={AMENDED: "true"}) as commit:
            rejected = commit.append(topic, rows)
        return AppendPosition(commit.position.counters, rejected)

    def delete(self, topic: str, keys: Rows) -> AppendPosition:
        """Appends a tombstone per key: the key's row is gone from the topic's table."""
        with self.commit() as commit:
            rejected = commit.delete(topic, keys)
        return AppendPosition(commit.position.counters, rejected)

    @abstractmethod
    def commit(
        self,
        *,
        producer: Producer | None = None,
        sequence: int | None = None,
        headers: Mapping[str, str] | None = None,
        on_conflict: OnConflict = "raise",
    ) -> Commit:
        """A commit across any number of topics, filled in a `with` block. `headers` are added to every record in it.

        With a named producer and a sequence number (1, 2, 3 …), a repeated commit is recognized. If a bookmark is not
        what the commit expects, the block raises `Conflict`; with `on_conflict="return"` it does not raise, and
        `commit.conflict` has the conflict.
        """

    @abstractmethod
    def producer(
        self, topic: str | None = None, *, name: str | None = None, **options: Unpack[ProducerOptions]
    ) -> Producer:
        """For many small sends. With a `name` it becomes that name's only holder; older ones are fenced from now on."""

    def bookmark(self, name: str) -> object:
        """The value that the last commit gave the bookmark; None if it has none."""
        return self.bookmarks.value(name)

    @property
    @abstractmethod
    def bookmarks(self) -> Bookmarks:
        """All bookmarks, with the positions of the commits that set them."""

    # Time

    def tick(self, at: datetime) -> Position:
        """Sets the log's clock, which is `now()` in views, and never goes back: raises `UsageError` if it would.

        `app.clock` does so as time passes; tests do it by hand.
        """
        return advance(self, CLOCK, at)

    def now(self, *, at: Position | None = None) -> datetime | None:
        """The log's clock at a position (now, if none is given); None if it has not ticked yet."""
        return time_of(self, CLOCK, self.position() if at is None else at)

    def watermark(self, topic: str, at: datetime) -> Position:
        """Promises that no event of a topic before this time will come: `watermark('topic')` in views.

        It never goes back: raises `UsageError` if it would, and `UnknownTopic`.
        """
        self.topic(topic)
        return advance(self, watermark_of(topic), at)

    def watermark_at(self, topic: str, *, at: Position | None = None) -> datetime | None:
        """The watermark of a topic at a position (now, if none is given); None if it has none yet."""
        return time_of(self, watermark_of(topic), self.position() if at is None else at)

    # Reading

    @abstractmethod
    def position(self) -> Position:
        """The log's current position."""

    @abstractmethod
    def between(self, start: Position, end: Position) -> Position | None:
        """A position after `start` and before `end`, about halfway; None if no commit lies between them."""

    @abstractmethod
    def offsets(self, topic: str, *, at: Position | None = None) -> dict[int, tuple[int, int]]:
        """For each partition the first offset that is kept, and the end: one past the last.

        With `at`, the end is one past the last record up to that position.
        """

    @abstractmethod
    def sizes(self, topic: str) -> list[PartitionSize]:
        """What is kept of each partition, in order."""

    @abstractmethod
    def first_after(self, topic: str, position: Position) -> datetime | None:
        """When the first record of a topic after a position was received; None if there is none.

        Raises `PositionGone` if it may have been deleted.
        """

    @abstractmethod
    def positions(self, records: pa.Table) -> list[Position]:
        """The position of every record of a table that `batches` or `scan` gave, with its system columns."""

    @abstractmethod
    def cutter(self, topics: Sequence[str]) -> Cutter:
        """What cuts the records of some topics into batches."""

    @abstractmethod
    def compacted(self, topics: Sequence[str]) -> Position:
        """How far compaction has got in these topics: a read that ends before may miss records that it removed."""

    @abstractmethod
    def wait(self, after: Position, timeout: Duration) -> Position:
        """Waits until the log is past a position, or the time is up; returns the log's position."""

    @abstractmethod
    def read(
        self,
        topics: str | Sequence[str],
        *,
        start: Start = "earliest",
        end: End | None = None,
        follow: bool = False,
        idle_timeout: Duration | None = None,
    ) -> Iterator[Record]:
        """Records one by one, in commit order over all topics and partitions.

        Ends at `end`, or with what is there now; with `follow` it waits for more, at most for `idle_timeout` at a time.
        """

    @abstractmethod
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
        """Like `read`, in Arrow: ordered inside a partition, not between partitions, and much faster.

        With `partition`, only that partition of each topic is read.
        """

    @abstractmethod
    def scan(
        self,
        topic: str,
        *,
        start: Start = "earliest",
        end: End | None = None,
        columns: Sequence[str] | None = None,
    ) -> pa.Table:
        """All records of a range as one Arrow table: the topic's columns and the system columns."""

    @abstractmethod
    def table(self, topic: str, *, at: Position | None = None) -> pa.Table:
        """The newest row per key at a position (now, if none is given), without deleted ones. Needs a key."""

    # Groups

    @abstractmethod
    def consumer(self, topics: str | Sequence[str], *, group: str, **options: Unpack[ConsumerOptions]) -> Consumer:
        """A new member of a consumer group.

        A name with `*`, `?` or `[` is a pattern: the member reads all topics whose names match, including later ones,
        and leaves those that are dropped.
        """

    @abstractmethod
    def groups(self) -> list[str]:
        """All consumer groups, by name."""

    @abstractmethod
    def members(self, group: str) -> list[Member]:
        """The active members of a group, by name: those whose leases have not ended. Raises `UnknownGroup`."""

    @abstractmethod
    def reset_group(
        self,
        group: str,
        to: Start,
        *,
        topics: str | Sequence[str] | None = None,
        force: bool = False,
        dry_run: bool = False,
    ) -> list[OffsetReset]:
        """Moves a group's offsets, in all topics that it reads or in some; returns the old and new ones per partition.

        Raises `GroupActive` while the group has members. With `force` they continue from there, and what they have not
        committed is refused. An offset needs one topic, and must be one that is kept, or the end. With `dry_run`,
        nothing is moved. Raises `UnknownGroup`, `PositionGone`.
        """

    @abstractmethod
    def delete_group(self, group: str, *, force: bool = False) -> None:
        """Deletes a group with its offsets. Raises `UnknownGroup`, and `GroupActive` while it has members.

        With `force` its members get `Fenced` from their next commit, and `UnknownGroup` from their next poll.
        """

    @abstractmethod
    def lag(self, group: str | None = None) -> list[Lag]:
        """How far each group is behind, per partition. Raises `UnknownGroup`."""

    @property
    def followers(self) -> Followers:
        """The readers of topics, how far they have got, and what is kept for them."""
        return NoFollowers()

    # Where it is, and how

    @property
    @abstractmethod
    def url(self) -> str:
        """The URL by which other processes open it: `headwater.open(log.url)`."""

    @property
    @abstractmethod
    def identity(self) -> str:
        """Distinguishes this log from another one that takes its place at the same URL."""

    @property
    @abstractmethod
    def state_directory(self) -> Path:
        """A local directory in which pipelines and captures keep their state."""

    @property
    def upkeep_failure(self) -> Exception | None:
        """Why the last round of background upkeep failed; None if it did not, or another process does the upkeep."""
        return None

    @property
    def upkeep_failures(self) -> int:
        """How many rounds of background upkeep have failed since the log was opened."""
        return 0

    @property
    def maintenance(self) -> Maintenance:
        """Operations on the files of a log that keeps its own. Raises `UsageError` for any other log."""
        raise UsageError(
            f"{self!r} does not keep its own files.",
            hint="Seal, compact, check and repair work on a log in a directory.",
        )

    # Life

    @abstractmethod
    def close(self) -> None:
        """Releases files and threads. What was acknowledged stays."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

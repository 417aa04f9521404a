"""Reading one partition of a topic on Kafka: its spans from the catalog, its messages in bulk, as Arrow."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import pyarrow as pa

from headwater.errors import Corrupt, LogUnavailable, RecordsGone, UnknownTopic
from headwater.log.embedded.sealed import AT, COMMIT, OFFSET, PARTITION
from headwater.log.embedded.segment import DELETED, HEADERS
from headwater.log.embedded.segments import partition_range
from headwater.log.kafka.address import KafkaAddress
from headwater.log.kafka.catalog import KafkaCatalog
from headwater.log.kafka.fetching import Fetchers
from headwater.log.kafka.values import from_json, record_headers
from headwater.log.reading import Batch
from headwater.log.topic import Topic
from headwater.model.record import SYSTEM_COLUMNS

RECORDS_AT_ONCE = 50_000
BYTES_AT_ONCE = 32 << 20
_STORED = (OFFSET, COMMIT, AT, DELETED, HEADERS)


@dataclass(frozen=True, slots=True)
class _Spans:
    """Spans of a partition that follow each other: headwater's offsets, Kafka's, commits and times."""

    base: np.ndarray
    end: np.ndarray
    kafka: np.ndarray
    commit: np.ndarray
    at: np.ndarray
    last: int
    """The end of the partition."""

    def kafka_offset(self, offset: int) -> int:
        """Kafka's offset of a record in one of the spans."""
        span = int(np.searchsorted(self.base, offset, side="right")) - 1
        return int(self.kafka[span]) + offset - int(self.base[span])


class KafkaReader:
    """See `Reader` for the contract."""

    def __init__(
        self,
        address: KafkaAddress,
        catalog: KafkaCatalog,
        fetchers: Fetchers,
        find_topic: Callable[[str], Topic],
        observe: Callable[[Topic], None],
        topic: Topic,
        partition: int,
        columns: Sequence[str] | None = None,
    ) -> None:
        self._address, self._catalog, self._fetchers = address, catalog, fetchers
        self._find_topic, self._observe = find_topic, observe
        self.topic, self.partition = topic, partition
        self._columns = list(columns) if columns is not None else None

    def read(self, offset: int, *, until_commit: int | None = None, until_offset: int | None = None) -> Batch | None:
        while True:
            spans = self._spans(offset, until_commit, until_offset)
            if spans is None:
                return None
            first = max(offset, int(spans.base[0]))
            end = min(int(spans.end[-1]), first + RECORDS_AT_ONCE)
            end = end if until_offset is None else min(end, until_offset)
            messages = self._fetch(spans, first, end)
            if messages:
                return self._batch(messages, spans, end)
            # Compaction has removed all of them.
            offset = end

    def seek(self, column: str, value: int) -> int:
        wanted = "last_commit > ?" if column == COMMIT.name else "last_at >= ?"
        with self._catalog.look() as tx:
            row = tx.execute(
                f"SELECT base_offset FROM segments WHERE topic_id = ? AND partition = ? AND {wanted} "
                "ORDER BY end_offset LIMIT 1",
                (self.topic.id, self.partition, value),
            ).fetchone()
            start, end = partition_range(tx, self.topic, self.partition)
        return end if row is None else max(start, int(row[0]))

    def first(self) -> int:
        with self._catalog.look() as tx:
            return partition_range(tx, self.topic, self.partition)[0]

    def empty(self) -> pa.Table:
        fields = {field.name: field for field in [*self.topic.schema, *_STORED, PARTITION]}
        return pa.schema([fields[name].with_nullable(True) for name in self._wanted()]).empty_table()

    def release(self) -> None:
        """Connections are given back after every read."""

    def close(self) -> None:
        self.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _spans(self, offset: int, until_commit: int | None, until_offset: int | None) -> _Spans | None:
        """The next spans from an offset on, about as many as are read at once."""
        commits = "" if until_commit is None else f"AND last_commit <= {int(until_commit)} "
        offsets = "" if until_offset is None else f"AND base_offset < {int(until_offset)} "
        rows: list[tuple[int, ...]] = []
        records = size = 0
        with self._catalog.look() as tx:
            start, end = partition_range(tx, self.topic, self.partition)
            if offset < start:
                raise RecordsGone(self.topic.name, self.partition, offset, start - 1)
            if offset >= end or (until_offset is not None and offset >= until_offset):
                return None
            for row in tx.execute(
                "SELECT base_offset, end_offset, marked, first_commit, first_at, bytes FROM segments "
                f"WHERE topic_id = ? AND partition = ? AND end_offset > ? {commits}{offsets}ORDER BY end_offset",
                (self.topic.id, self.partition, offset),
            ):
                rows.append(row)
                records, size = records + row[1] - row[0], size + row[5]
                if records >= RECORDS_AT_ONCE or size >= BYTES_AT_ONCE:
                    break
        if not rows:
            return None
        columns = np.array(rows, dtype=np.int64).T
        return _Spans(columns[0], columns[1], columns[2], columns[3], columns[4], end)

    def _fetch(self, spans: _Spans, first: int, end: int) -> list[Any]:
        kafka_first, kafka_end = spans.kafka_offset(first), spans.kafka_offset(end - 1) + 1
        name = self._address.topic(self.topic.name)
        more = end < spans.last
        try:
            found = self._fetchers.fetch(name, self.partition, kafka_first, kafka_end, end - first, more=more)
        except LogUnavailable:
            self._check_not_dropped()
            raise
        if found is not None:
            return found
        self._observe(self.topic)
        start = self.first()
        if first < start:
            raise RecordsGone(self.topic.name, self.partition, first, start - 1)
        raise LogUnavailable(self._address.url, f"topic {name!r} does not have offset {kafka_first}")

    def _check_not_dropped(self) -> None:
        """Raises `UnknownTopic` if the topic was dropped meanwhile."""
        if self._find_topic(self.topic.name).id != self.topic.id:
            raise UnknownTopic(self.topic.name)

    def _batch(self, messages: Sequence[Any], spans: _Spans, end: int) -> Batch:
        kafka = np.fromiter((message.offset() for message in messages), np.int64, len(messages))
        span = np.searchsorted(spans.kafka, kafka, side="right") - 1
        offsets = spans.base[span] + kafka - spans.kafka[span]
        self._renew_schema()
        wanted = self._wanted()
        columns: dict[str, Any] = {
            OFFSET.name: lambda: pa.array(offsets),
            COMMIT.name: lambda: pa.array(spans.commit[span]),
            AT.name: lambda: pa.array(spans.at[span]).cast(AT.type),
            PARTITION.name: lambda: pa.repeat(pa.scalar(self.partition, PARTITION.type), len(messages)),
            DELETED.name: lambda: pa.array([message.value() is None for message in messages]),
            HEADERS.name: lambda: pa.array([record_headers(message.headers()) for message in messages], HEADERS.type),
        }
        data = self._decode(messages, [name for name in wanted if name not in columns], int(offsets[0]), end)
        table = pa.table({name: columns[name]() if name in columns else data[name] for name in wanted})
        return Batch(self.topic.name, self.partition, table, end)

    def _decode(self, messages: Sequence[Any], names: Sequence[str], first: int, end: int) -> pa.Table:
        """Some of the topic's columns. A tombstone's key is that of its message."""
        if not names:
            return pa.table({})
        schema = pa.schema([self.topic.schema.field(name) for name in names])
        rows = [message.value() if message.value() is not None else message.key() or b"{}" for message in messages]
        try:
            return from_json(rows, schema)
        except (ValueError, TypeError, ArithmeticError) as error:
            raise Corrupt(
                f"{self._address.topic(self.topic.name)}/{self.partition}", first, end - 1, str(error)
            ) from error

    def _renew_schema(self) -> None:
        found = self._find_topic(self.topic.name)
        if found.id != self.topic.id:
            raise UnknownTopic(self.topic.name)
        self.topic = found

    def _wanted(self) -> list[str]:
        return self._columns if self._columns is not None else [*self.topic.schema.names, *SYSTEM_COLUMNS]

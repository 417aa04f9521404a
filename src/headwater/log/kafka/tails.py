"""Writing records to Kafka, within a transaction of the catalog, which keeps where each commit's records are.

A row of the catalog's table `segments` is a span: records of one commit and partition, one message each, at offsets of
Kafka that follow each other. Kafka gives offsets to the marks of transactions, too; headwater's own count records. So
the table has both: `base_offset` is headwater's, `marked` is Kafka's of the same record.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headwater.log.kafka.address import KafkaAddress
from headwater.log.kafka.transactions import Message, Transactions
from headwater.log.kafka.values import message_headers, to_json
from headwater.log.topic import Topic
from headwater.system.sqlite import Connection

_SPAN = """
INSERT INTO segments (topic_id, partition, base_offset, end_offset, first_commit, last_commit, first_at, last_at,
                      state, file, bytes, rows, marked)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, 'sealed', '', ?, ?, ?)
"""
_DELETED, _HEADERS = "_deleted", "_headers"


class KafkaTails:
    """See `Tails` for the contract: the catalog's transaction is the one that records are written in."""

    def __init__(self, address: KafkaAddress, transactions: Transactions) -> None:
        self._address, self._transactions = address, transactions
        self.written: dict[str, list[int]] = {}

    def append(
        self, tx: Connection, topic: Topic, partition: int, tables: Sequence[pa.Table], commit: int, at: int
    ) -> tuple[int, int]:
        return self._append(tx, topic, partition, tables, None, commit, at)

    def append_each(
        self, tx: Connection, topic: Topic, partition: int, table: pa.Table, commits: npt.NDArray[np.int64], at: int
    ) -> tuple[int, int]:
        return self._append(tx, topic, partition, [table], commits, 0, at)

    def sync(self) -> None:
        """They are durable when `append` returns."""

    def committed(self) -> None:
        self.written.clear()

    def abandon(self) -> None:
        self.written.clear()

    def summary(self) -> dict[str, list[int]]:
        """The first offset and the end, in Kafka, of every partition that the transaction has written to."""
        return dict(self.written)

    def _append(
        self,
        tx: Connection,
        topic: Topic,
        partition: int,
        tables: Sequence[pa.Table],
        commits: npt.NDArray[np.int64] | None,
        commit: int,
        at: int,
    ) -> tuple[int, int]:
        place = self._address.topic(topic.name)
        messages = [message for table in tables for message in messages_of(topic, table)]
        offsets = np.array(self._transactions.send(place, partition, messages), dtype=np.int64)
        numbers = np.full(len(offsets), commit, np.int64) if commits is None else commits
        first = int(
            tx.execute(
                "SELECT end_offset FROM partitions WHERE topic_id = ? AND partition = ?", (topic.id, partition)
            ).fetchone()[0]
        )
        sizes = np.cumsum([0, *(len(key or b"") + len(value or b"") for key, value, _ in messages)])
        # The mark of an earlier transaction may come between two records: then a new span begins.
        breaks = np.flatnonzero((np.diff(offsets) != 1) | (np.diff(numbers) != 0)) + 1
        begins = np.concatenate([[0], breaks])
        ends = np.concatenate([breaks, [len(offsets)]])
        tx.executemany(
            _SPAN,
            [
                (topic.id, partition, first + b, first + e, n, n, at, at, size, e - b, offset)
                for b, e, n, size, offset in zip(
                    begins.tolist(), ends.tolist(), numbers[begins].tolist(), (sizes[ends] - sizes[begins]).tolist(),
                    offsets[begins].tolist(), strict=True,
                )
            ],
        )  # fmt: skip
        end = first + len(offsets)
        tx.execute(
            "UPDATE partitions SET end_offset = ? WHERE topic_id = ? AND partition = ?", (end, topic.id, partition)
        )
        began = self.written.get(f"{place}/{partition}", [int(offsets[0])])[0]
        self.written[f"{place}/{partition}"] = [began, int(offsets[-1]) + 1]
        return first, end


def messages_of(topic: Topic, table: pa.Table) -> list[Message]:
    """Records as messages: JSON of the columns, JSON of the key's columns; a tombstone has a key and no value."""
    rows = table.num_rows
    keys: Sequence[bytes | None] = to_json(table.select(list(topic.key))) if topic.key else [None] * rows
    values: Sequence[bytes | None] = to_json(table.select([field.name for field in topic.schema]))
    if _DELETED in table.column_names:
        deleted = table[_DELETED].to_pylist()
        values = [None if gone else value for value, gone in zip(values, deleted, strict=True)]
    headers = message_headers(table[_HEADERS]) if _HEADERS in table.column_names else [None] * rows
    return list(zip(keys, values, headers, strict=True))

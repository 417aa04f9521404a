"""Retention on Kafka: the brokers delete by themselves, and the catalog learns of it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

from headwater.errors import ExternalError, UsageError
from headwater.log.kafka.address import KafkaAddress
from headwater.log.kafka.catalog import KafkaCatalog
from headwater.log.kafka.cluster import Cluster
from headwater.log.topic import Topic
from headwater.system.background import Background
from headwater.system.sqlite import Connection

ROUND_SECONDS = 60.0


class Retention:
    """Compares what Kafka still has with what the catalog knows, now and then and when a read finds a difference."""

    def __init__(
        self, address: KafkaAddress, cluster: Cluster, catalog: KafkaCatalog, topics: Callable[[], Sequence[Topic]]
    ) -> None:
        self._address, self._cluster, self._catalog, self._topics = address, cluster, catalog, topics
        self._closing = threading.Event()
        self._thread: Background | None = None
        self.failure: Exception | None = None
        self.failures = 0

    def start(self) -> None:
        """Begins to look in the background."""
        self._thread = Background("kafka-retention", self._run).start()

    def close(self) -> None:
        self._closing.set()
        if self._thread is not None:
            self._thread.stop()

    def observe_all(self) -> None:
        """Looks at all topics."""
        for topic in self._topics():
            self.observe(topic)

    def observe(self, topic: Topic) -> None:
        """Looks at one topic, and writes to the catalog what is not there any more."""
        name = self._address.topic(topic.name)
        firsts = self._cluster.first_offsets(name, topic.partitions)
        with self._catalog.read() as tx:
            known = [_first_known(tx, topic, partition) for partition in range(topic.partitions)]
        if all(there is None or first <= there for first, there in zip(firsts, known, strict=True)):
            return
        with self._catalog.write() as tx:
            for partition, first in enumerate(firsts):
                _forget(tx, topic, partition, first)

    def _run(self) -> None:
        while not self._closing.wait(ROUND_SECONDS):
            try:
                self.observe_all()
            except (ExternalError, UsageError) as error:
                self.failure, self.failures = error, self.failures + 1
            else:
                self.failure = None


def _first_known(tx: Connection, topic: Topic, partition: int) -> int | None:
    """Kafka's offset of the first record that the catalog has; None if it has none."""
    row = tx.execute(
        "SELECT s.marked + p.start_offset - s.base_offset FROM partitions p "
        "JOIN segments s ON s.topic_id = p.topic_id AND s.partition = p.partition AND s.end_offset > p.start_offset "
        "WHERE p.topic_id = ? AND p.partition = ? ORDER BY s.end_offset LIMIT 1",
        (topic.id, partition),
    ).fetchone()
    return None if row is None else int(row[0])


def _forget(tx: Connection, topic: Topic, partition: int, first: int) -> None:
    """Takes what is before an offset of Kafka out of the catalog."""
    place = (topic.id, partition)
    last = tx.execute(
        "SELECT max(min(end_offset, base_offset + ? - marked)), max(last_commit) FROM segments "
        "WHERE topic_id = ? AND partition = ? AND marked < ?",
        (first, *place, first),
    ).fetchone()
    if last[0] is None:
        return
    tx.execute(
        "UPDATE partitions SET start_offset = max(start_offset, ?), deleted_commit = max(deleted_commit, ?) "
        "WHERE topic_id = ? AND partition = ?",
        (*last, *place),
    )
    tx.execute(
        "DELETE FROM segments WHERE topic_id = ? AND partition = ? AND marked + end_offset - base_offset <= ?",
        (*place, first),
    )

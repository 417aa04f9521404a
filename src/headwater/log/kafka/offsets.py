"""Group offsets, for Kafka's own tools: after each commit of a group they are told to Kafka, too.

The catalog decides: there offsets move in one transaction with records. What Kafka is told is for those who look at a
group with Kafka's tools, comes a moment later, and is told again with the group's next commit.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from queue import SimpleQueue

from headwater.errors import ExternalError, UsageError
from headwater.log.commit import OffsetMove
from headwater.log.kafka.address import KafkaAddress
from headwater.log.kafka.catalog import KafkaCatalog
from headwater.log.kafka.cluster import Cluster
from headwater.system.background import Background


class GroupOffsets:
    """Tells Kafka, in a thread of its own, how far groups are."""

    def __init__(self, address: KafkaAddress, cluster: Cluster, catalog: KafkaCatalog) -> None:
        self._address, self._cluster, self._catalog = address, cluster, catalog
        self._moves: SimpleQueue[Sequence[OffsetMove] | None] = SimpleQueue()
        self._thread: Background | None = None
        self._starting = threading.Lock()

    def publish(self, moves: Sequence[OffsetMove]) -> None:
        """Tells Kafka soon."""
        with self._starting:
            self._thread = self._thread or Background("kafka-offsets", self._run).start()
        self._moves.put(moves)

    def close(self) -> None:
        """Tells what is left."""
        if self._thread is not None:
            self._moves.put(None)
            self._thread.stop()

    def _run(self) -> None:
        while (moves := self._moves.get()) is not None:
            newest: dict[str, dict[tuple[str, int], int]] = {}
            ended = False
            while True:
                for move in moves or ():
                    place = self._address.topic(move.topic.name), move.partition
                    newest.setdefault(move.group, {})[place] = self._kafka_offset(move)
                if self._moves.empty():
                    break
                moves = self._moves.get()
                ended = ended or moves is None
            for group, offsets in newest.items():
                self._tell(group, offsets)
            if ended:
                return

    def _tell(self, group: str, offsets: dict[tuple[str, int], int]) -> None:
        try:
            self._cluster.set_group_offsets(group, offsets)
        except (ExternalError, UsageError):
            # Kafka is told with the next commit: nothing of headwater's reads it.
            return

    def _kafka_offset(self, move: OffsetMove) -> int:
        """Kafka's offset of the record that a group reads next, or behind the last."""
        with self._catalog.look() as tx:
            row = tx.execute(
                "SELECT marked + min(?, end_offset) - base_offset FROM segments "
                "WHERE topic_id = ? AND partition = ? AND base_offset < ? ORDER BY end_offset DESC LIMIT 1",
                (move.offset, move.topic.id, move.partition, max(1, move.offset)),
            ).fetchone()
        return 0 if row is None else int(row[0])

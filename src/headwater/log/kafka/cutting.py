"""Cutting a log on Kafka into batches, from what the catalog knows of spans: no message is read for it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from headwater.errors import PositionGone
from headwater.log.cutting import Cut, OffsetRange
from headwater.log.embedded.position import commit_of, commit_position
from headwater.log.kafka.catalog import KafkaCatalog
from headwater.log.topic import Topic
from headwater.model.position import START, Position
from headwater.system.clock import instant

BATCH_BYTES_MAX = 256 << 20
"""A batch ends with the commit that brings it to this many bytes of messages."""

_COMMITS = """
SELECT last_commit, sum(rows), sum(bytes), max(last_at) FROM segments
WHERE topic_id IN ({topics}) AND last_commit > ? AND last_commit <= ? GROUP BY last_commit ORDER BY last_commit
"""
_RANGES = """
SELECT topic_id, partition, min(base_offset), max(end_offset) FROM segments
WHERE topic_id IN ({topics}) AND last_commit > ? AND last_commit <= ? GROUP BY topic_id, partition
"""
_DELETED = "SELECT topic_id, max(deleted_commit) FROM partitions WHERE topic_id IN ({topics}) GROUP BY topic_id"


class KafkaCutter:
    """See `Cutter` for the contract."""

    def __init__(self, catalog: KafkaCatalog, find_topics: Callable[[], Sequence[Topic]]) -> None:
        self._catalog, self._find_topics = catalog, find_topics
        self._accepted: Position | None = None

    def cut(self, start: Position, end: Position, rows_max: int) -> Cut:
        topics = {topic.id: topic.name for topic in self._find_topics()}
        compacted = max((self._catalog.compacted_commit(topic) for topic in self._find_topics()), default=0)
        last = max(commit_of(end), compacted)
        names = ", ".join(map(str, topics))
        self._check_kept(start, topics)
        rows, size, at = 0, 0, None
        with self._catalog.read() as tx:
            for commit, more, larger, committed_at in tx.execute(
                _COMMITS.format(topics=names), (commit_of(start), last)
            ):
                rows, size, at = rows + more, size + larger, committed_at
                if (rows >= rows_max or size >= BATCH_BYTES_MAX) and commit >= compacted:
                    last = commit
                    break
            found = tx.execute(_RANGES.format(topics=names), (commit_of(start), last)).fetchall()
        ranges = [OffsetRange(topics[topic], *rest) for topic, *rest in found]
        return Cut(commit_position(last), rows, None if at is None else instant(at), ranges)

    def begin(self, start: Position, offsets: Mapping[tuple[str, int], int]) -> None:
        self._accepted = start

    def _check_kept(self, start: Position, topics: Mapping[int, str]) -> None:
        """Raises `PositionGone` if Kafka has deleted records behind a position that a pipeline has come to."""
        if start in (START, self._accepted) or not topics:
            return
        with self._catalog.read() as tx:
            found = tx.execute(_DELETED.format(topics=", ".join(map(str, topics)))).fetchall()
        for topic, deleted in found:
            if deleted > commit_of(start):
                raise PositionGone(topics[topic], str(start), str(commit_position(deleted)), "retention")

"""What the catalog knows of segments: which files hold which offsets of which partition."""

from __future__ import annotations

from dataclasses import fields

from headwater.errors import UnknownTopic
from headwater.log.maintenance import Segment
from headwater.log.topic import Topic
from headwater.system.sqlite import Connection

COLUMNS = ", ".join(field.name for field in fields(Segment))


def select(tx: Connection, condition: str, values: tuple[object, ...] = ()) -> list[Segment]:
    """The segments for which an SQL condition holds (it may continue with ORDER BY and LIMIT)."""
    return [Segment(*row) for row in tx.execute(f"SELECT {COLUMNS} FROM segments WHERE {condition}", values)]


def segment_from(tx: Connection, topic_id: int, partition: int, offset: int) -> Segment | None:
    """The segment that holds the offset, or the next one behind it."""
    condition = "topic_id = ? AND partition = ? AND end_offset > ? ORDER BY end_offset LIMIT 1"
    return next(iter(select(tx, condition, (topic_id, partition, offset))), None)


def mark_before(tx: Connection, segment: Segment, column: str, value: int) -> tuple[int, int]:
    """The last known place (offset, byte) of a segment at or before a value of `offset`, `commit_number` or `at`."""
    # A commit or a time may begin before the mark that names it: only what is strictly less is surely before.
    compare = "<=" if column == "offset" else "<"
    row = tx.execute(
        f"SELECT offset, byte FROM marks WHERE segment_id = ? AND {column} {compare} ? ORDER BY offset DESC LIMIT 1",
        (segment.id, value),
    ).fetchone()
    return (row[0], row[1]) if row is not None else (segment.base_offset, 0)


def partition_range(tx: Connection, topic: Topic, partition: int) -> tuple[int, int]:
    """The first offset that is kept, and the end: one past the last. Raises `UnknownTopic` once it was dropped."""
    row = tx.execute(
        "SELECT start_offset, end_offset FROM partitions WHERE topic_id = ? AND partition = ?", (topic.id, partition)
    ).fetchone()
    if row is None:
        raise UnknownTopic(topic.name)
    return row[0], row[1]

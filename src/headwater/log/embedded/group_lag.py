"""How far each group is behind, from what the catalog knows of its claims and of the segments in front of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress

from headwater.errors import Corrupt, UnknownGroup
from headwater.log.catalog import Catalog
from headwater.log.embedded.segments import select
from headwater.log.lag import Lag
from headwater.log.maintenance import Segment
from headwater.log.topic import Topic

ReceivedAt = Callable[[Topic, int, int], int]
"""When the record at an offset of a topic's partition was received, in microseconds."""


def lag_of(
    catalog: Catalog, topics: Mapping[int, Topic], group: str | None, now: int, received_at: ReceivedAt
) -> list[Lag]:
    """The lag of one group or of all, in order. Raises `UnknownGroup`."""
    with catalog.read() as tx:
        rows = tx.execute(
            "SELECT c.group_name, c.topic_id, c.partition, c.member, c.offset, p.start_offset, p.end_offset "
            "FROM claims c JOIN partitions p USING (topic_id, partition) WHERE ? IN (c.group_name, '') "
            "ORDER BY c.group_name, c.topic_id, c.partition",
            (group or "",),
        ).fetchall()
        known = tx.execute("SELECT 1 FROM groups WHERE name = ?", (group,)).fetchone()
        if group is not None and known is None:
            raise UnknownGroup(group)
        found = []
        for name, topic_id, partition, member, offset, start, end in rows:
            where = "topic_id = ? AND partition = ? AND end_offset > ? ORDER BY end_offset"
            unread = select(tx, where, (topic_id, partition, offset or 0))
            topic = topics[topic_id]
            since = _since(topic, partition, max(offset or 0, start), unread, received_at)
            seconds = max(0.0, (now - since) / 1e6) if since is not None else 0.0
            found.append(_lag(name, topic, partition, member, offset or 0, start, end, unread, seconds))
    return found


def _lag(
    group: str, topic: Topic, partition: int, member: str | None, offset: int, start: int, end: int,
    unread: list[Segment], seconds: float,
) -> Lag:  # fmt: skip
    size = sum(int(segment.bytes * _unread_part(segment, offset)) for segment in unread)
    behind = end - max(offset, start)
    gone = max(0, start - offset)
    risk = _risk(topic, seconds, size) if behind or gone else _risk(topic, 0.0, 0)
    return Lag(group, topic.name, partition, member, offset, end, behind, size, seconds, gone, risk)


def _since(
    topic: Topic, partition: int, offset: int, unread: Sequence[Segment], received_at: ReceivedAt
) -> float | None:
    """When the oldest unread record was received; None if there is none."""
    if not unread:
        return None
    first = unread[0]
    if first.state != "sealed":
        # Damage is reported to the reader, and by `check`.
        with suppress(Corrupt):
            return received_at(topic, partition, offset)
    return first.first_at + (1 - _unread_part(first, offset)) * (first.last_at - first.first_at)


def _unread_part(segment: Segment, offset: int) -> float:
    whole = segment.end_offset - segment.base_offset
    return min(1.0, (segment.end_offset - offset) / whole) if whole else 0.0


def _risk(topic: Topic, seconds: float, size: int) -> float | None:
    settings = topic.settings
    if settings.archive is not None:
        # Nothing is deleted.
        return None
    risks = []
    if settings.retention_age:
        risks.append(seconds / settings.retention_age.total_seconds())
    if settings.retention_bytes:
        risks.append(size * topic.partitions / settings.retention_bytes)
    return max(risks, default=None)

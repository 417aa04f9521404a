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
from headwater.system.sqlite import Connection

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
            gone = max(0, start - (offset or 0)) + _tombstones(tx, name, topic_id, partition, max(offset or 0, start))
            place = (topics[topic_id], partition, member, offset or 0, start, end, gone)
            found.append(lag_at(tx, name, "group", *place, now, received_at))
    return found


def _tombstones(tx: Connection, group: str, topic_id: int, partition: int, offset: int) -> int:
    """How many tombstones a group has still to pass that were dropped before it has read them."""
    query = (
        "SELECT coalesce(sum(last_offset - max(first_offset, ?) + 1), 0) FROM missed WHERE follower = ?"
        " AND kind = 'group' AND topic_id = ? AND partition = ? AND last_offset >= ?"
    )
    return int(tx.execute(query, (offset, group, topic_id, partition, offset)).fetchall()[0][0])


def lag_at(
    tx: Connection, name: str, kind: str, topic: Topic, partition: int, member: str | None, offset: int, start: int,
    end: int, gone: int, now: int, received_at: ReceivedAt,
) -> Lag:  # fmt: skip
    """The lag of a follower that has read a partition up to an offset, and has missed `gone` records."""
    where = "topic_id = ? AND partition = ? AND end_offset > ? ORDER BY end_offset"
    unread = select(tx, where, (topic.id, partition, offset))
    since = _since(topic, partition, max(offset, start), unread, received_at)
    seconds = max(0.0, (now - since) / 1e6) if since is not None else 0.0
    size = sum(int(segment.bytes * _unread_part(segment, offset)) for segment in unread)
    behind = end - max(offset, start)
    risk = _risk(topic, seconds, size) if behind or gone else _risk(topic, 0.0, 0)
    held = sum(segment.bytes for segment in unread if _is_due(topic, segment, now))
    return Lag(name, topic.name, partition, member, offset, end, behind, size, seconds, gone, risk, kind, held)


def _is_due(topic: Topic, segment: Segment, now: int) -> bool:
    """Whether retention would have deleted a segment if nobody needed it."""
    age = topic.settings.retention_age
    return topic.deletes and age is not None and now - segment.last_at > age.total_seconds() * 1e6


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
    if settings.retention_age and settings.hold_age_max is not None:
        risks.append(seconds / (settings.retention_age + settings.hold_age_max).total_seconds())
    if settings.retention_bytes and settings.hold_bytes_max is not None:
        risks.append(size * topic.partitions / (settings.retention_bytes + settings.hold_bytes_max))
    return max(risks, default=None)

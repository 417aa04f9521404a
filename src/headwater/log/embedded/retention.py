"""Retention: deleting the oldest segments of a topic, by age and by bytes, and of the whole log, by bytes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from headwater.log.embedded.catalog import Catalog
from headwater.log.embedded.segments import select
from headwater.log.maintenance import Segment
from headwater.log.topic import Topic
from headwater.system.clock import Clock
from headwater.system.sqlite import Connection
from headwater.system.storage import Storage


def retain(
    catalog: Catalog, topics: Sequence[Topic], storage: Storage, directory: Path, clock: Clock
) -> tuple[int, int]:
    """Deletes what is too old or too much; how many segments and records. What has an archive is never deleted."""
    deletable = [topic for topic in topics if topic.settings.cleanup == "delete" and topic.settings.archive is None]
    now = clock.now()
    with catalog.read() as tx:
        if not _idle(tx, topics, now) and not _too_much(tx, deletable, now):
            return 0, 0
    with catalog.write() as tx:
        for segment in _idle(tx, topics, now):
            _close(tx, segment)
        doomed = _too_much(tx, deletable, now)
        for segment in doomed:
            _delete(tx, segment)
    for segment in doomed:
        storage.discard(directory / segment.file)
    return len(doomed), sum(segment.rows for segment in doomed)


def _idle(tx: Connection, topics: Iterable[Topic], now: int) -> list[Segment]:
    """Active segments that are old or large enough to be closed, though nobody appends to them, or nobody can."""
    idle = []
    for topic in topics:
        age_max = topic.settings.segment_age_max
        if topic.settings.retention_age is not None:
            age_max = min(age_max, topic.settings.retention_age)
        before = now - int(age_max.total_seconds() * 1e6)
        idle += select(tx, "topic_id = ? AND state = 'active' AND first_at < ?", (topic.id, before))
        if topic.settings.retention_bytes is not None:
            # On a full disk nobody could append to it, and so end it, before some of it is gone.
            full = "topic_id = ? AND state = 'active' AND first_at >= ? AND bytes >= ?"
            idle += select(tx, full, (topic.id, before, topic.roll_bytes))
    return idle


def _too_much(tx: Connection, topics: Iterable[Topic], now: int) -> list[Segment]:
    """Complete segments to delete, each partition's oldest first."""
    doomed: dict[int, Segment] = {}
    kept: list[Segment] = []
    for topic in topics:
        oldest_first = select(tx, "topic_id = ? ORDER BY last_at, partition, base_offset", (topic.id,))
        settings = topic.settings
        excess = sum(s.bytes for s in oldest_first) - (settings.retention_bytes or 0)
        for segment in oldest_first:
            old = (
                settings.retention_age is not None
                and now - segment.last_at > settings.retention_age.total_seconds() * 1e6
            )
            much = settings.retention_bytes is not None and excess > 0
            if segment.state != "active" and (old or much):
                doomed[segment.id] = segment
                excess -= segment.bytes
            else:
                kept.append(segment)
    bytes_max = tx.execute("SELECT bytes_max FROM log").fetchone()[0]
    if bytes_max is not None:
        total = tx.execute("SELECT coalesce(sum(bytes), 0) FROM segments WHERE local").fetchone()[0]
        excess = total - sum(segment.bytes for segment in doomed.values() if segment.local) - bytes_max
        for segment in sorted(kept, key=lambda s: (s.last_at, s.topic_id, s.partition, s.base_offset)):
            if excess > 0 and segment.state != "active" and segment.local:
                doomed[segment.id] = segment
                excess -= segment.bytes
    return list(doomed.values())


def _close(tx: Connection, segment: Segment) -> None:
    tx.execute("UPDATE segments SET state = 'closed' WHERE id = ?", (segment.id,))
    tx.execute("UPDATE partitions SET active_segment = NULL WHERE active_segment = ?", (segment.id,))


def _delete(tx: Connection, segment: Segment) -> None:
    tx.execute("DELETE FROM segments WHERE id = ?", (segment.id,))
    tx.execute("DELETE FROM marks WHERE segment_id = ?", (segment.id,))
    tx.execute(
        "UPDATE partitions SET start_offset = max(start_offset, ?), deleted_commit = max(deleted_commit, ?) "
        "WHERE topic_id = ? AND partition = ?",
        (segment.end_offset, segment.last_commit, segment.topic_id, segment.partition),
    )

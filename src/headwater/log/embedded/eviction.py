"""Eviction: removing the local files of archived segments, by age and by bytes; nothing is lost by that."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from headwater.log.embedded.catalog import Catalog
from headwater.log.embedded.segments import select
from headwater.log.maintenance import Segment
from headwater.log.topic import Topic
from headwater.system.clock import Clock
from headwater.system.sqlite import Connection
from headwater.system.storage import Storage


def evict(
    catalog: Catalog, topics: Sequence[Topic], storage: Storage, directory: Path, clock: Clock, *, durable: bool
) -> int:
    """Removes the local files that retention does not keep of topics with an archive; how many."""
    archived = [topic for topic in topics if topic.settings.archive is not None]
    now = clock.now()
    with catalog.read() as tx:
        if not _evictable(tx, archived, now):
            return 0
    if not durable:
        # The catalog must not come back from a power cut without the objects of which only the archive has the bytes.
        storage.sync_all()
    with catalog.write() as tx:
        found = _evictable(tx, archived, now)
        tx.executemany("UPDATE segments SET local = 0 WHERE id = ?", [(segment.id,) for segment in found])
    for segment in found:
        storage.discard(directory / segment.file)
    return len(found)


def _evictable(tx: Connection, topics: Sequence[Topic], now: int) -> list[Segment]:
    """Local segments that are in an archive and too old or too much here, the oldest first."""
    found: dict[int, Segment] = {}
    kept: list[Segment] = []
    for topic in topics:
        local = select(tx, "topic_id = ? AND local ORDER BY last_at, partition, base_offset", (topic.id,))
        age, size = topic.settings.retention_age, topic.settings.retention_bytes
        excess = sum(segment.bytes for segment in local) - size if size is not None else 0
        for segment in local:
            old = age is not None and now - segment.last_at > age.total_seconds() * 1e6
            if old or excess > 0:
                # One that waits for its archive counts all the same: what came after it has to stay longer for it.
                excess -= segment.bytes
                if segment.object is not None:
                    found[segment.id] = segment
            elif segment.object is not None:
                kept.append(segment)
    bytes_max = tx.execute("SELECT bytes_max FROM log").fetchone()[0]
    if bytes_max is not None:
        total = tx.execute("SELECT coalesce(sum(bytes), 0) FROM segments WHERE local").fetchone()[0]
        excess = total - sum(segment.bytes for segment in found.values()) - bytes_max
        for segment in sorted(kept, key=lambda s: (s.last_at, s.topic_id, s.partition, s.base_offset)):
            if excess > 0:
                found[segment.id] = segment
                excess -= segment.bytes
    return list(found.values())

"""Compaction: keeping the newest record of every key, with its offset, and dropping what it replaced.

Works on a partition's sealed segments, front to back, and puts each rewritten run in the place of the old ones in one
transaction. Killed at any moment, it leaves a partition that is compacted up to some point, and a file to sweep.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from headwater.errors import UnknownTopic
from headwater.log.embedded.catalog import Catalog
from headwater.log.embedded.holding import NEVER, Holds, held_for, note_missed
from headwater.log.embedded.sealed import OFFSET
from headwater.log.embedded.sealing import Sealer, replace_segments
from headwater.log.embedded.segments import select
from headwater.log.keys import newest_rows
from headwater.log.maintenance import Segment
from headwater.log.topic import Topic
from headwater.model.durations import format_duration
from headwater.model.hashing import hash_columns
from headwater.system.sqlite import Connection

# Compaction pays when at least this part of the records came since the last time.
DIRTY_PART_MIN = 0.5
# Keys of more records than this are looked at in several passes, so that memory stays bounded.
ROWS_AT_ONCE_MAX = 8_000_000


def compact_partition(
    catalog: Catalog, sealer: Sealer, topic: Topic, partition: int, now: int, *, full: bool = False
) -> int:
    """Compacts what is sealed, if it pays or `full` is asked for; how many records it removed."""
    with catalog.read() as tx:
        segments = select(
            tx, "topic_id = ? AND partition = ? AND state = 'sealed' ORDER BY base_offset", (topic.id, partition)
        )
        row = tx.execute(
            "SELECT compacted_offset FROM partitions WHERE topic_id = ? AND partition = ?", (topic.id, partition)
        ).fetchone()
        if row is None:
            raise UnknownTopic(topic.name)
    rows = sum(segment.rows for segment in segments)
    dirty = sum(segment.rows for segment in segments if segment.end_offset > row[0])
    if not rows or not (full or dirty >= rows * DIRTY_PART_MIN):
        return 0
    keep = _newest(sealer, topic, segments, rows)
    removed = 0
    for run in _runs(segments, keep, topic.roll_bytes):
        removed += _rewrite(catalog, sealer, topic, run, keep, now, horizon=segments[-1])
    return removed


def _newest(sealer: Sealer, topic: Topic, segments: list[Segment], rows: int) -> np.ndarray:
    """The offsets of the newest record of every key, sorted."""
    passes = 1 + rows // ROWS_AT_ONCE_MAX
    found = []
    for number in range(passes):
        parts = [
            table if passes == 1 else _share(table, topic, number, passes)
            for segment in segments
            for table in sealer.read(topic, segment, [*topic.key, OFFSET.name])
        ]
        found.append(newest_rows(pa.concat_tables(parts), topic.key, OFFSET.name))
    return np.sort(np.concatenate(found))


def _share(table: pa.Table, topic: Topic, number: int, passes: int) -> pa.Table:
    mine = hash_columns([table[name] for name in topic.key]) % np.uint64(passes) == number
    return table.filter(pa.array(mine))


def _runs(segments: list[Segment], keep: np.ndarray, bytes_max: int) -> list[list[Segment]]:
    """Neighbours that will fit into one segment once their old records are gone."""
    runs: list[list[Segment]] = []
    size = 0.0
    for segment in segments:
        kept = np.searchsorted(keep, segment.end_offset) - np.searchsorted(keep, segment.base_offset)
        expected = segment.bytes * kept / max(1, segment.rows)
        if not runs or size + expected > bytes_max:
            runs.append([])
            size = 0.0
        runs[-1].append(segment)
        size += expected
    return runs


def _rewrite(
    catalog: Catalog, sealer: Sealer, topic: Topic, run: list[Segment], keep: np.ndarray, now: int, horizon: Segment
) -> int:
    grace = _Grace(catalog, topic, run[0].partition, now)

    def kept() -> Iterator[pa.Table]:
        for segment in run:
            for table in sealer.read(topic, segment):
                yield grace.without_old(table, keep)

    content = sealer.write(topic, run[0].partition, run[0].base_offset, kept())
    removed = sum(segment.rows for segment in run) - content.rows
    with catalog.write() as tx:
        # Their files may have moved to an archive meanwhile: what is in them has not changed.
        ids = ", ".join(str(segment.id) for segment in run)
        present = len(select(tx, f"id IN ({ids})")) == len(run)
        if removed and present:
            replace_segments(tx, run, content)
        if present:
            tx.execute(
                "UPDATE partitions SET compacted_commit = max(compacted_commit, ?), compacted_offset = ?, "
                "forgotten_commit = max(forgotten_commit, ?) WHERE topic_id = ? AND partition = ?",
                (horizon.last_commit if removed else 0, horizon.end_offset, grace.commit, topic.id, run[0].partition),
            )
            grace.note_missed(tx)
    if removed and present:
        sealer.discard(run)
        return removed
    sealer.discard_file(content.file)
    return 0


class _Grace:
    """Which tombstones of a partition may go: those that are old enough, and that every follower has seen.

    Over the topic's limit they go all the same, and who had not seen them is told.
    """

    def __init__(self, catalog: Catalog, topic: Topic, partition: int, now: int) -> None:
        self._topic, self._partition, self._now = topic, partition, now
        with catalog.read() as tx:
            self._commit, self._offset = Holds(tx, topic).passed(partition)
        self._old = now - int(topic.settings.tombstone_grace.total_seconds() * 1e6)
        self._over = self._old - held_for(topic) if topic.settings.hold_age_max is not None else -NEVER
        self._forced: list[tuple[int, int]] = []
        self.commit = 0
        """The last commit whose tombstone was dropped."""

    def without_old(self, table: pa.Table, keep: np.ndarray) -> pa.Table:
        """The newest records of keys, without tombstones that may go."""
        offsets = table[OFFSET.name].to_numpy()
        commits = table["_commit"].to_numpy()
        index = np.minimum(np.searchsorted(keep, offsets), len(keep) - 1)
        newest = keep[index] == offsets
        at = table["_received_at"].cast(pa.int64()).to_numpy()
        deleted = table["_deleted"].fill_null(False).to_numpy()
        seen = (commits <= self._commit) & (offsets < self._offset)
        forgotten = newest & deleted & (at < self._old) & (seen | (at < self._over))
        if forgotten.any():
            self.commit = max(self.commit, int(commits[forgotten].max()))
            unseen = forgotten & ~seen
            self._forced += zip(offsets[unseen].tolist(), commits[unseen].tolist(), strict=True)
        return table.filter(pa.array(newest & ~forgotten))

    def note_missed(self, tx: Connection) -> None:
        """Tells followers which tombstones they have missed."""
        holders = Holds(tx, self._topic).holders(self._partition) if self._forced else []
        limit = self._topic.settings.hold_age_max
        reason = f"hold_age_max is {'none' if limit is None else format_duration(limit)}"
        for holder in holders:
            for offset, commit in self._forced:
                if (holder.commit < commit) if holder.commit is not None else holder.since <= offset:
                    place = (self._topic.id, self._partition, offset, offset)
                    note_missed(tx, holder, *place, reason, self._now)

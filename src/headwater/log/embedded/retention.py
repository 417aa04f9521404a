"""Retention: deleting the oldest segments of a topic, by age and by bytes, and of the whole log, by bytes.

A segment that is due goes when no follower needs it any more. Where views forget, a commit trims the topic first, and
pipelines retract what they made of the records; see docs/concepts/history.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from headwater.log.embedded.catalog import Catalog
from headwater.log.embedded.holding import NEVER, Holder, Holds, forced, note_missed
from headwater.log.embedded.segments import select
from headwater.log.maintenance import Segment
from headwater.log.topic import Topic
from headwater.system.clock import Clock
from headwater.system.sqlite import Connection
from headwater.system.storage import Storage

TRIM_BYTES = 64 << 20
"""A commit trims about so much, because a pipeline retracts it in one batch."""
CAP_SLACK = 8
"""The cap of the log may be exceeded by this part of it while followers need what should go."""

Seek = Callable[[Topic, int, int], int]
"""The first offset of a partition behind a commit."""


def retain(
    catalog: Catalog, topics: Sequence[Topic], storage: Storage, directory: Path, clock: Clock, seek: Seek
) -> tuple[int, int]:
    """Deletes what is too old or too much; how many segments and records. What has an archive is never deleted."""
    now = clock.now()
    with catalog.read() as tx:
        due, missed = _Due(tx, topics, now), dict[tuple[int, Holder], int]()
        if not _idle(tx, topics, now) and not due.is_work:
            return 0, 0
        for segment in due.doomed:
            for holder in due.forced_on.get(segment.id, ()):
                missed[segment.id, holder] = _first_missed(due.topics[segment.topic_id], segment, holder, seek)
    with catalog.write() as tx:
        for segment in _idle(tx, topics, now):
            _close(tx, segment)
        due = _Due(tx, topics, now)
        due.trim(tx, now)
        # Who held nothing before the trim has to retract now.
        due = _Due(tx, topics, now)
        for segment in due.doomed:
            for holder in due.forced_on.get(segment.id, ()):
                first = missed.get((segment.id, holder), max(segment.base_offset, holder.since))
                place = (segment.topic_id, segment.partition, first, segment.end_offset - 1)
                note_missed(tx, holder, *place, due.reasons[segment.id], now)
            _delete(tx, segment)
        for topic in due.topics.values():
            _drop_old_trims(tx, topic)
    for segment in due.doomed:
        storage.discard(directory / segment.file)
    return len(due.doomed), sum(segment.rows for segment in due.doomed)


@dataclass(slots=True)
class _Due:
    """What retention wants to delete, what of it may go now, and what is to be trimmed before."""

    tx: Connection
    given: Sequence[Topic]
    now: int
    topics: dict[int, Topic] = field(init=False)
    doomed: list[Segment] = field(init=False, default_factory=list)
    to_trim: list[Segment] = field(init=False, default_factory=list)
    forced_on: dict[int, list[Holder]] = field(init=False, default_factory=dict)
    reasons: dict[int, str] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        self.topics = {topic.id: topic for topic in self.given if topic.deletes}
        held: list[Segment] = []
        for topic_id, segments in _too_much(self.tx, list(self.topics.values()), self.now).items():
            held += self._divide(self.topics[topic_id], segments)
        self._cap(held)

    @property
    def is_work(self) -> bool:
        return bool(self.doomed or self.to_trim)

    def trim(self, tx: Connection, now: int) -> None:
        """Commits from which offset on the topics' partitions count, in steps that a pipeline takes one by one."""
        step: list[Segment] = []
        for segment in self.to_trim:
            if sum(one.bytes for one in step) + segment.bytes > TRIM_BYTES:
                _trim(tx, step, now)
                step = []
            step.append(segment)
        _trim(tx, step, now)

    def _divide(self, topic: Topic, segments: Sequence[Segment]) -> list[Segment]:
        """Sorts what is due of a topic, each partition's oldest first; what stays because somebody needs it."""
        holds = Holds(self.tx, topic)
        holders = {segment.id: holds.of(segment) for segment in segments}
        limits = forced([segment for segment in segments if holders[segment.id]], topic, self.now)
        kept: dict[int, list[Segment]] = {}
        for segment in segments:
            if segment.end_offset > holds.trimmed(segment.partition) and holds.retract(segment):
                self.to_trim.append(segment)
            waits = holders[segment.id] and segment.id not in limits
            # What comes after a segment that stays has to stay as well.
            if waits or segment.partition in kept:
                kept.setdefault(segment.partition, []).append(segment)
                continue
            if holders[segment.id]:
                self.forced_on[segment.id], self.reasons[segment.id] = holders[segment.id], limits[segment.id]
            self.doomed.append(segment)
        return [segment for found in kept.values() for segment in found]

    def _cap(self, held: Sequence[Segment]) -> None:
        """Deletes what followers hold where the log would grow far beyond its cap."""
        bytes_max = _bytes_max(self.tx)
        if bytes_max is None:
            return
        excess = _local_bytes(self.tx) - sum(segment.bytes for segment in self.doomed)
        excess -= bytes_max + bytes_max // CAP_SLACK
        for segment in sorted(held, key=_age):
            if excess > 0:
                holds = Holds(self.tx, self.topics[segment.topic_id])
                self.forced_on[segment.id] = holds.of(segment)
                self.reasons[segment.id] = f"the log's cap is {bytes_max} bytes"
                self.doomed.append(segment)
                excess -= segment.bytes


def _age(segment: Segment) -> tuple[int, int, int, int]:
    return segment.last_at, segment.topic_id, segment.partition, segment.base_offset


def _first_missed(topic: Topic, segment: Segment, holder: Holder, seek: Seek) -> int:
    """The first record of a segment that a follower has not read, or has not retracted."""
    if holder.commit is None or holder.commit < segment.first_commit or holder.commit >= segment.last_commit:
        return max(segment.base_offset, holder.since)
    return max(seek(topic, segment.partition, holder.commit), holder.since)


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


def _too_much(tx: Connection, topics: Iterable[Topic], now: int) -> dict[int, list[Segment]]:
    """Complete segments that are due, by topic, each partition's oldest first."""
    found: dict[int, list[Segment]] = {}
    kept: list[Segment] = []
    freed = 0
    trims = {topic_id for (topic_id,) in tx.execute("SELECT DISTINCT topic_id FROM trims")}
    for topic in topics:
        oldest_first = select(tx, "topic_id = ? ORDER BY last_at, partition, base_offset", (topic.id,))
        if not oldest_first:
            continue
        settings, holds = topic.settings, Holds(tx, topic) if topic.id in trims else None
        excess = sum(s.bytes for s in oldest_first) - (settings.retention_bytes or 0)
        for segment in oldest_first:
            old = (
                settings.retention_age is not None
                and now - segment.last_at > settings.retention_age.total_seconds() * 1e6
            )
            much = settings.retention_bytes is not None and excess > 0
            trimmed = holds is not None and segment.end_offset <= holds.trimmed(segment.partition)
            if segment.state != "active" and (old or much or trimmed):
                found.setdefault(topic.id, []).append(segment)
                excess -= segment.bytes
                freed += segment.bytes if segment.local else 0
            elif topic.is_capped:
                kept.append(segment)
    bytes_max = _bytes_max(tx)
    if bytes_max is not None:
        excess = _local_bytes(tx) - freed - bytes_max
        for segment in sorted(kept, key=_age):
            if excess > 0 and segment.state != "active" and segment.local:
                found.setdefault(segment.topic_id, []).append(segment)
                excess -= segment.bytes
    return found


def _bytes_max(tx: Connection) -> int | None:
    cap: int | None = tx.execute("SELECT bytes_max FROM log").fetchone()[0]
    return cap


def _local_bytes(tx: Connection) -> int:
    return int(tx.execute("SELECT coalesce(sum(bytes), 0) FROM segments WHERE local").fetchone()[0])


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


def _trim(tx: Connection, segments: Sequence[Segment], now: int) -> None:
    """One commit from which on the records of some segments do not count."""
    if not segments:
        return
    firsts: dict[tuple[int, int], int] = {}
    for segment in segments:
        place = (segment.topic_id, segment.partition)
        firsts[place] = max(firsts.get(place, 0), segment.end_offset)
    (commit,) = tx.execute(
        "UPDATE log SET commit_number = commit_number + 1, committed_at = max(committed_at, ?) RETURNING commit_number",
        (now,),
    ).fetchall()[0]
    rows = [(*place, commit, first) for place, first in firsts.items()]
    tx.executemany("INSERT INTO trims VALUES (?, ?, ?, ?)", rows)


def _drop_old_trims(tx: Connection, topic: Topic) -> None:
    """Forgets how a topic was trimmed at positions that every pipeline has left behind."""
    commit = tx.execute(
        "SELECT min(commit_number) FROM followers WHERE topic_id = ? AND kind = 'pipeline'", (topic.id,)
    ).fetchone()[0]
    tx.execute(
        "DELETE FROM trims AS t WHERE topic_id = ? AND EXISTS (SELECT 1 FROM trims n WHERE n.topic_id = t.topic_id"
        " AND n.partition = t.partition AND n.commit_number > t.commit_number AND n.commit_number <= ?)",
        (topic.id, NEVER if commit is None else commit),
    )

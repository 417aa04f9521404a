"""Holding: which records of a topic followers still need, as the catalog knows, so that they are not deleted yet."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta

from headwater.log.followers import FollowerKind
from headwater.log.maintenance import Segment
from headwater.log.topic import Topic
from headwater.model.durations import format_duration
from headwater.system.sqlite import Connection

NEVER = 1 << 62
"""After every commit and every offset."""


@dataclass(frozen=True, slots=True)
class Holder:
    """A follower in one partition: it needs no record up to `commit`, and none before the offset `since`.

    A group has no commit: it needs what begins at its offset, which is in `since`.
    """

    name: str
    kind: FollowerKind
    since: int
    commit: int | None


class Holds:
    """The followers of a topic, and what its commits have trimmed, in one transaction."""

    def __init__(self, tx: Connection, topic: Topic) -> None:
        self._forgets = topic.settings.views == "forget"
        self._holders: dict[int, list[Holder]] = {partition: [] for partition in range(topic.partitions)}
        for name, kind, commit, since in tx.execute(
            "SELECT name, kind, commit_number, since FROM followers WHERE topic_id = ?", (topic.id,)
        ):
            begun = {int(partition): offset for partition, offset in json.loads(since).items()}
            for partition, found in self._holders.items():
                found.append(Holder(name, kind, begun.get(partition, 0), commit))
        for name, partition, offset in tx.execute(
            "SELECT group_name, partition, offset FROM claims WHERE topic_id = ? AND offset IS NOT NULL", (topic.id,)
        ):
            self._holders[partition].append(Holder(name, "group", offset, None))
        self._trims = tx.execute(
            "SELECT partition, commit_number, first_offset FROM trims WHERE topic_id = ? ORDER BY commit_number",
            (topic.id,),
        ).fetchall()

    def holders(self, partition: int) -> list[Holder]:
        """All followers of a partition."""
        return self._holders[partition]

    def trimmed(self, partition: int) -> int:
        """The first offset of a partition that counts for views."""
        return max((first for number, _, first in self._trims if number == partition), default=0)

    def retract(self, segment: Segment) -> bool:
        """Whether a pipeline has made something of the segment that it is to retract before it is deleted."""
        return self._forgets and any(
            one.kind == "pipeline" and one.since < segment.end_offset for one in self._holders[segment.partition]
        )

    def of(self, segment: Segment) -> list[Holder]:
        """Who still needs records of a segment."""
        return [one for one in self._holders[segment.partition] if self._needs(one, segment)]

    def passed(self, partition: int) -> tuple[int, int]:
        """The commit and the offset that all followers of a partition have come to: they need nothing before both."""
        holders = self._holders[partition]
        commits = [one.commit for one in holders if one.commit is not None]
        return min(commits, default=NEVER), min((one.since for one in holders if one.commit is None), default=NEVER)

    def _needs(self, one: Holder, segment: Segment) -> bool:
        if one.since >= segment.end_offset:
            return False
        if one.commit is None:
            return True
        return one.commit < self._needed_until(one, segment)

    def _needed_until(self, one: Holder, segment: Segment) -> int:
        """The commit at which a follower is done with a segment: a pipeline when it has retracted its records."""
        if one.kind != "pipeline" or not self._forgets:
            return segment.last_commit
        commits = (
            commit
            for partition, commit, first in self._trims
            if partition == segment.partition and first >= segment.end_offset
        )
        return min(commits, default=NEVER)


def forced(held: Iterable[Segment], topic: Topic, now: int) -> dict[int, str]:
    """Which of the segments that followers hold are over a topic's limits, by id, each with the limit."""
    settings, oldest_first = topic.settings, sorted(held, key=lambda segment: (segment.last_at, segment.base_offset))
    found = {}
    excess = sum(segment.bytes for segment in oldest_first) - (settings.hold_bytes_max or 0)
    for segment in oldest_first:
        if settings.hold_age_max is not None and now > segment.last_at + held_for(topic):
            found[segment.id] = f"hold_age_max is {format_duration(settings.hold_age_max)}"
        elif settings.hold_bytes_max is not None and excess > 0:
            found[segment.id] = f"hold_bytes_max is {settings.hold_bytes_max}"
        if segment.id in found:
            excess -= segment.bytes
    return found


def held_for(topic: Topic) -> int:
    """For how many microseconds records are kept for a follower, at most."""
    age = topic.settings.retention_age or timedelta(0)
    return int((age + (topic.settings.hold_age_max or timedelta(0))).total_seconds() * 1e6)


def note_missed(
    tx: Connection, holder: Holder, topic_id: int, partition: int, first: int, last: int, reason: str, now: int
) -> None:
    """Remembers what a follower has missed; runs of offsets for the same reason become one."""
    place = (holder.name, holder.kind, topic_id, partition)
    joined = tx.execute(
        "UPDATE missed SET last_offset = ?, at = ? WHERE follower = ? AND kind = ? AND topic_id = ? AND partition = ?"
        " AND last_offset = ? AND reason = ? RETURNING 1",
        (last, now, *place, first - 1, reason),
    ).fetchall()
    if not joined:
        tx.execute("INSERT OR REPLACE INTO missed VALUES (?, ?, ?, ?, ?, ?, ?, ?)", (*place, first, last, reason, now))

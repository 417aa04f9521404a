"""The followers of an embedded log: rows of its catalog."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence

from headwater.log.embedded.catalog import Catalog
from headwater.log.embedded.group_lag import ReceivedAt, lag_at
from headwater.log.embedded.position import commit_of, commit_position
from headwater.log.embedded.registry import Registry
from headwater.log.embedded.segments import partition_range
from headwater.log.followers import Follower, FollowerKind, Missed
from headwater.log.lag import Lag
from headwater.log.topic import Topic
from headwater.model.position import Position
from headwater.system.clock import Clock, instant
from headwater.system.sqlite import Connection

Seek = Callable[[Topic, int, int], int]
"""The first offset of a partition behind a commit."""


class CatalogFollowers:
    """See `Followers` for the contract."""

    def __init__(self, catalog: Catalog, registry: Registry, clock: Clock, seek: Seek, received_at: ReceivedAt) -> None:
        self._catalog, self._registry, self._clock = catalog, registry, clock
        self._seek, self._received_at = seek, received_at

    def hold(
        self, name: str, kind: FollowerKind, position: Position, topics: Sequence[str], *, heir_of: Sequence[str] = ()
    ) -> None:
        found = [self._registry.topic(topic) for topic in topics]
        commit: int = commit_of(position)
        with self._catalog.write() as tx:
            rows = tx.execute("SELECT topic_id, since, commit_number FROM followers WHERE name = ?", (name,)).fetchall()
            known = {topic_id: since for topic_id, since, _ in rows}
            # A driver that was fenced may say how far it was when another one is further already.
            commit = max([commit, *(said for _, _, said in rows)]) if commit else 0
            if not commit:
                known = {topic.id: json.dumps(_first_offsets(tx, topic)) for topic in found}
                tx.execute("DELETE FROM missed WHERE follower = ? AND kind != 'group'", (name,))
            for other in heir_of:
                _inherit(tx, name, other, known)
            tx.execute("DELETE FROM followers WHERE name = ?", (name,))
            rows = [(name, kind, topic.id, commit, known.get(topic.id, "{}"), self._clock.now()) for topic in found]
            tx.executemany("INSERT INTO followers VALUES (?, ?, ?, ?, ?, ?)", rows)

    def release(self, names: Sequence[str]) -> None:
        with self._catalog.read() as tx:
            known = {name for (name,) in tx.execute("SELECT DISTINCT name FROM followers")}
        gone = [(name,) for name in names if name in known]
        if not gone:
            return
        with self._catalog.write() as tx:
            tx.executemany("DELETE FROM followers WHERE name = ?", gone)
            tx.executemany("DELETE FROM missed WHERE follower = ? AND kind != 'group'", gone)

    def all(self) -> list[Follower]:
        with self._catalog.read() as tx:
            names = {topic.id: topic.name for topic in self._registry.topics()}
            found: dict[str, list[tuple[str, int, int, str, int]]] = {}
            for name, *row in tx.execute("SELECT * FROM followers ORDER BY kind, name, topic_id"):
                found.setdefault(name, []).append(tuple(row))
            groups = tx.execute(
                "SELECT group_name, topic_id, max(moved_at) FROM claims GROUP BY group_name, topic_id ORDER BY 1, 2"
            ).fetchall()
        by_group: dict[str, list[tuple[int, int | None]]] = {}
        for name, topic_id, moved_at in groups:
            by_group.setdefault(name, []).append((topic_id, moved_at))
        return [
            *(_follower(name, rows, names) for name, rows in found.items()),
            *(_group(name, rows, names) for name, rows in by_group.items()),
        ]

    def find(self, name: str) -> Follower | None:
        return next((one for one in self.all() if one.name == name and one.kind != "group"), None)

    def missed(self, name: str | None = None) -> list[Missed]:
        names = {topic.id: topic.name for topic in self._registry.topics()}
        with self._catalog.read() as tx:
            rows = tx.execute("SELECT * FROM missed WHERE ? IS NULL OR follower = ?", (name, name)).fetchall()
        return [
            Missed(follower, kind, names[topic], partition, first, last, reason, instant(at))
            for follower, kind, topic, partition, first, last, reason, at in rows
            if topic in names
        ]

    def lag(self) -> list[Lag]:
        found, now, missed = [], self._clock.now(), self.missed()
        with self._catalog.read() as tx:
            topics = {topic.id: topic for topic in self._registry.topics()}
            query = "SELECT name, kind, topic_id, commit_number FROM followers ORDER BY name, topic_id"
            for name, kind, topic_id, commit in tx.execute(query).fetchall():
                topic = topics[topic_id]
                for partition in range(topic.partitions):
                    first, end = partition_range(tx, topic, partition)
                    # Before its first batch, a follower wants what is there.
                    offset = self._seek(topic, partition, commit) if commit else first
                    gone = sum(
                        one.records
                        for one in missed
                        if (one.follower, one.topic, one.partition) == (name, topic.name, partition)
                    )
                    found.append(
                        lag_at(tx, name, kind, topic, partition, None, offset, first, end, gone, now, self._received_at)
                    )
        return found

    def has_trims(self) -> bool:
        """Whether any topic was ever trimmed."""
        with self._catalog.read() as tx:
            return tx.execute("SELECT 1 FROM trims LIMIT 1").fetchone() is not None

    def first_trim(self, topics: Sequence[str], after: Position, end: Position) -> Position | None:
        """The first commit after a position, and no later than another, that trims one of these topics."""
        if not topics:
            return None
        with self._catalog.read() as tx:
            query = (
                "SELECT min(commit_number) FROM trims WHERE commit_number > ? AND commit_number <= ?"
                f" AND topic_id IN ({self._ids(topics)})"
            )
            (commit,) = tx.execute(query, (commit_of(after), commit_of(end))).fetchone()
        return None if commit is None else commit_position(commit)

    def tombstones_dropped(self, topics: Sequence[str], after: Position) -> dict[str, Position]:
        """The topics of which compaction has dropped tombstones behind a position, each with the last of them."""
        with self._catalog.read() as tx:
            query = (
                "SELECT topic_id, max(forgotten_commit) FROM partitions WHERE forgotten_commit > ?"
                f" AND topic_id IN ({self._ids(topics)}) GROUP BY topic_id"
            )
            found = dict(tx.execute(query, (commit_of(after),)).fetchall())
            names = {topic.id: topic.name for topic in self._registry.topics()} if found else {}
        return {names[topic_id]: commit_position(commit) for topic_id, commit in found.items()}

    def _ids(self, topics: Sequence[str]) -> str:
        return ", ".join(str(self._registry.topic(name).id) for name in topics)

    def trimmed(self, topic: str, at: Position) -> dict[int, int]:
        with self._catalog.read() as tx:
            return trimmed_at(tx, self._registry.topic(topic), commit_of(at))


def _inherit(tx: Connection, name: str, other: str, known: dict[int, str]) -> None:
    """Takes over where another follower began, and what it has missed."""
    for topic_id, text in tx.execute("SELECT topic_id, since FROM followers WHERE name = ?", (other,)).fetchall():
        mine, its = json.loads(known.get(topic_id, text)), json.loads(text)
        known[topic_id] = json.dumps({part: min(mine.get(part, 0), its.get(part, 0)) for part in {**mine, **its}})
    tx.execute(
        "INSERT OR IGNORE INTO missed SELECT ?, kind, topic_id, partition, first_offset, last_offset, reason, at"
        " FROM missed WHERE follower = ? AND kind != 'group'",
        (name, other),
    )


def trimmed_at(tx: Connection, topic: Topic, commit: int) -> dict[int, int]:
    """The first offset of each partition that counts at a commit, of those that were trimmed."""
    return dict(
        tx.execute(
            "SELECT partition, max(first_offset) FROM trims WHERE topic_id = ? AND commit_number <= ? GROUP BY 1",
            (topic.id, commit),
        ).fetchall()
    )


def _first_offsets(tx: Connection, topic: Topic) -> dict[int, int]:
    trims = trimmed_at(tx, topic, 1 << 62) if topic.settings.views == "forget" else {}
    return {
        partition: max(partition_range(tx, topic, partition)[0], trims.get(partition, 0))
        for partition in range(topic.partitions)
    }


def _follower(name: str, rows: Sequence[tuple[str, int, int, str, int]], names: Mapping[int, str]) -> Follower:
    kind, _, commit, _, moved_at = rows[0]
    since = {
        names[topic_id]: {int(partition): offset for partition, offset in json.loads(text).items()}
        for _, topic_id, _, text, _ in rows
        if topic_id in names
    }
    return Follower(name, _kind(kind), commit_position(commit), since, instant(moved_at))


def _group(name: str, rows: Sequence[tuple[int, int | None]], names: Mapping[int, str]) -> Follower:
    moved = max((at for _, at in rows if at is not None), default=None)
    since: dict[str, Mapping[int, int]] = {names[topic_id]: {} for topic_id, _ in rows if topic_id in names}
    return Follower(name, "group", None, since, None if moved is None else instant(moved))


def _kind(text: str) -> FollowerKind:
    kinds: dict[str, FollowerKind] = {"pipeline": "pipeline", "base": "base", "sink": "sink", "capture": "capture"}
    return kinds.get(text, "group")

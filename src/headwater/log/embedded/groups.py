"""Consumer groups in the catalog: who is a member, who claims which partition, and up to where it has been read.

There is no coordinator. Every member, under the write lock, drops members whose lease has ended, works out the same
fair division from what it sees, gives back what it has too much of and takes what is free and due to it. A claim's
epoch grows each time it changes hands; a holder with an older epoch cannot move the offset any more.

    free  --take-->  claimed by m, epoch n+1  --give back, leave, lease ended-->  free
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime
from typing import Protocol

from headwater.errors import Fenced, TombstonesGone, UnknownGroup
from headwater.log.catalog import Catalog
from headwater.log.embedded.segments import partition_range
from headwater.log.membership import Claim, Place
from headwater.log.options import GroupStart
from headwater.log.topic import Topic
from headwater.model.position import Position
from headwater.system.clock import Clock
from headwater.system.sqlite import Connection


class Seek(Protocol):
    """Finds where a partition is read from, for a time or a position."""

    def __call__(self, topic: Topic, partition: int, start: GroupStart, /) -> int: ...


class CatalogMembership:
    """A `Membership` that is kept in the catalog. `topics` finds what it wants, and tells whether by name."""

    def __init__(
        self,
        catalog: Catalog,
        clock: Clock,
        group: str,
        member: str,
        topics: Callable[[], Sequence[tuple[Topic, bool]]],
        *,
        lease_seconds: float,
        start: GroupStart,
        seek: Seek,
    ) -> None:
        self._catalog, self._clock = catalog, clock
        self.group, self.member = group, member
        self._find_topics, self._topics = topics, dict[int, Topic]()
        # Topics that a pattern has found; and the newest of all topics, of which it may be the first to know.
        self._found, self._newest = set[int](), 0
        self._lease, self._start, self._seek = lease_seconds, start, seek
        self._epoch = 0

    @property
    def topics(self) -> Collection[int]:
        return self._topics.keys()

    def version(self) -> tuple[int, int]:
        """Changes whenever the division of the group's partitions may have to: with the group, and with the topics."""
        with self._catalog.read() as tx:
            return _version(tx, self.group), _topics_version(tx)

    def renew(self, in_use: Collection[Place] = ()) -> tuple[list[Claim], tuple[int, int]]:
        """Joins or stays, and settles what this member claims from now on; that, and the group's version.

        What is `in_use` is not given back. Raises `Fenced`, and `UnknownTopic` once a topic was dropped.
        """
        with self._catalog.read() as tx:
            topics_version = _topics_version(tx)
            topics = self._find_topics()
            self._topics = {topic.id: topic for topic, _ in topics}
            self._found = {topic.id for topic, named in topics if not named}
            self._newest = tx.execute("SELECT coalesce(max(id), 0) FROM topics").fetchone()[0]
            begun = self._begun(tx)
        # Before the lock is held: a time and a position are looked up in the segments' files.
        begins = self._begins(begun) if isinstance(self._start, (datetime, Position)) else {}
        with self._catalog.write() as tx:
            before = _state(tx, self.group)
            epoch = self._stay(tx)
            self._drop_ended(tx)
            self._list_partitions(tx)
            self._settle(tx, in_use, begins)
            if _state(tx, self.group) != before:
                changed(tx, self.group, self._newest)
            claims, version = self._claims(tx), _version(tx, self.group)
        self._epoch = epoch
        return claims, (version, topics_version)

    def offsets(self) -> dict[tuple[int, int], int]:
        """Up to where each partition that this member claims is committed."""
        with self._catalog.read() as tx:
            return {claim.place: claim.offset for claim in self._claims(tx)}

    def missed(self, place: Place, first: int, end: int) -> list[TombstonesGone]:
        """See `Membership`."""
        topic = self._topics[place[0]].name
        with self._catalog.read() as tx:
            rows = tx.execute(
                "SELECT max(first_offset, ?), min(last_offset, ?), reason FROM missed WHERE follower = ?"
                " AND kind = 'group' AND topic_id = ? AND partition = ? AND last_offset >= ? AND first_offset < ?"
                " ORDER BY first_offset",
                (first, end - 1, self.group, *place, first, end),
            ).fetchall()
        return [TombstonesGone(topic, place[1], *row) for row in rows]

    def keep(self) -> bool:
        """Prolongs the lease, and ends the leases that are over; whether there were any."""
        with self._catalog.write() as tx:
            tx.execute(
                "UPDATE members SET lease_until = ? WHERE group_name = ? AND member = ? AND epoch = ?",
                (self._clock.monotonic() + self._lease, self.group, self.member, self._epoch),
            )
            ended = self._drop_ended(tx)
            if ended:
                changed(tx, self.group)
            return ended

    def leave(self) -> None:
        """Gives everything back."""
        with self._catalog.write() as tx:
            mine = (self.group, self.member, self._epoch)
            tx.execute("DELETE FROM members WHERE group_name = ? AND member = ? AND epoch = ?", mine)
            if tx.changes():
                _release(tx, self.group, self.member)
                changed(tx, self.group)

    def _stay(self, tx: Connection) -> int:
        """Is a member from now on; as of which epoch."""
        name = (self.group, self.member)
        row = tx.execute("SELECT epoch FROM members WHERE group_name = ? AND member = ?", name).fetchone()
        epoch = self._epoch
        if epoch and not _version(tx, self.group):
            raise UnknownGroup(self.group, deleted=True)
        if row is None or not epoch:
            _release(tx, *name)
            changed(tx, self.group, self._newest)
            epoch = _version(tx, self.group)
        elif row[0] != epoch:
            raise Fenced("member", "/".join(name), epoch, row[0])
        until = self._clock.monotonic() + self._lease
        topics = json.dumps(sorted(self._topics))
        values = (*name, topics, self._clock.boot(), until, epoch)
        tx.execute("INSERT OR REPLACE INTO members VALUES (?, ?, ?, ?, ?, ?)", values)
        return epoch

    def _drop_ended(self, tx: Connection) -> bool:
        ended = tx.execute(
            "SELECT member FROM members WHERE group_name = ? AND (boot != ? OR lease_until < ?)",
            (self.group, self._clock.boot(), self._clock.monotonic()),
        ).fetchall()
        for (member,) in ended:
            _release(tx, self.group, member)
            tx.execute("DELETE FROM members WHERE group_name = ? AND member = ?", (self.group, member))
        return bool(ended)

    def _list_partitions(self, tx: Connection) -> None:
        rows = [(self.group, topic.id, p) for topic in self._topics.values() for p in range(topic.partitions)]
        tx.executemany("INSERT OR IGNORE INTO claims VALUES (?, ?, ?, NULL, 0, NULL, NULL)", rows)

    def _begun(self, tx: Connection) -> set[Place]:
        """The partitions of which it is decided already where the group begins."""
        rows = tx.execute(
            "SELECT topic_id, partition FROM claims WHERE group_name = ? AND offset IS NOT NULL", (self.group,)
        )
        return set(rows.fetchall())

    def _begins(self, begun: Collection[Place]) -> dict[Place, int]:
        places = [(topic, partition) for topic in self._topics.values() for partition in range(topic.partitions)]
        return {
            (topic.id, partition): self._seek(topic, partition, self._start)
            for topic, partition in places
            if (topic.id, partition) not in begun
        }

    def _settle(self, tx: Connection, in_use: Collection[Place], begins: Mapping[Place, int]) -> None:
        members = {
            member: frozenset(json.loads(topics))
            for member, topics in tx.execute(
                "SELECT member, topics FROM members WHERE group_name = ? ORDER BY member", (self.group,)
            )
        }
        held = {
            (topic_id, partition): member
            for topic_id, partition, member in tx.execute(
                "SELECT topic_id, partition, member FROM claims WHERE group_name = ?", (self.group,)
            )
        }
        for place, member in divide(members, held).items():
            if held[place] == self.member and member != self.member and place not in in_use:
                _set_holder(tx, self.group, place, None)
            elif held[place] is None and member == self.member:
                self._take(tx, place, begins)

    def _take(self, tx: Connection, place: Place, begins: Mapping[Place, int]) -> None:
        _set_holder(tx, self.group, place, self.member)
        where = "group_name = ? AND topic_id = ? AND partition = ?"
        named = (self.group, *place)
        # Where a new group begins is decided once: a member that dies before its first commit changes nothing.
        if tx.execute(f"SELECT offset FROM claims WHERE {where}", named).fetchone()[0] is None:
            offset = self._begin(tx, place, begins)
            tx.execute(f"UPDATE claims SET offset = ? WHERE {where}", (offset, *named))

    def _begin(self, tx: Connection, place: Place, begins: Mapping[Place, int]) -> int:
        """Where the group begins to read a partition."""
        topic, partition = self._topics[place[0]], place[1]
        first, end = partition_range(tx, topic, partition)
        if self._start == "earliest" or (topic.id in self._found and topic.id > _newest_topic(tx, self.group)):
            # A topic that came after the group, and that a pattern has found, is news from its first record on.
            return first
        if self._start == "latest":
            return end
        return max(first, begins[place] if place in begins else self._seek(topic, partition, self._start))

    def _claims(self, tx: Connection) -> list[Claim]:
        rows = tx.execute(
            "SELECT topic_id, partition, epoch, offset FROM claims WHERE group_name = ? AND member = ? "
            "ORDER BY topic_id, partition",
            (self.group, self.member),
        )
        return [Claim(self._topics[topic_id], *rest) for topic_id, *rest in rows if topic_id in self._topics]


def divide(members: Mapping[str, Collection[int]], held: Mapping[Place, str | None]) -> dict[Place, str | None]:
    """Who should claim each partition: as even as the members' topics allow, moving as little as possible.

    A pure function of what all members see, so that all of them come to the same division.
    """
    names = sorted(members)
    wanting = {topic: [name for name in names if topic in members[name]] for topic in sorted({t for t, _ in held})}
    load = dict.fromkeys(names, 0)
    stock: dict[tuple[str, int], list[Place]] = {}
    free: list[Place] = []
    for place in sorted(held):
        holder = held[place]
        if holder is not None and holder in wanting[place[0]]:
            stock.setdefault((holder, place[0]), []).append(place)
            load[holder] += 1
        else:
            free.append(place)
    for place in free:
        if wanting[place[0]]:
            least = min(wanting[place[0]], key=load.__getitem__)
            stock.setdefault((least, place[0]), []).append(place)
            load[least] += 1
    while moves := _relief(stock, load, wanting):
        for giver, topic, taker in moves:
            stock.setdefault((taker, topic), []).append(stock[giver, topic].pop())
            load[giver], load[taker] = load[giver] - 1, load[taker] + 1
    return dict.fromkeys(held) | {place: member for (member, _), places in stock.items() for place in places}


def _relief(
    stock: Mapping[tuple[str, int], Sequence[Place]], load: Mapping[str, int], wanting: Mapping[int, Sequence[str]]
) -> list[tuple[str, int, str]]:
    """Moves (from whom, of which topic, to whom) from one who has too much to one who has too little, or none.

    Where members want different topics they are several: one gives to a second, who gives something else to a third.
    """
    least = min(load.values(), default=0)
    for giver in sorted(load, key=lambda name: (-load[name], name)):
        if load[giver] <= least + 1:
            break
        reached: dict[str, list[tuple[str, int, str]]] = {giver: []}
        topics, queue = set(wanting), [giver]
        for name in queue:
            for topic in sorted(topic for topic in topics if stock.get((name, topic))):
                topics.discard(topic)
                for other in wanting[topic]:
                    if other not in reached:
                        reached[other] = [*reached[name], (name, topic, other)]
                        queue.append(other)
        taker = min(queue, key=load.__getitem__)
        if load[taker] + 1 < load[giver]:
            return reached[taker]
    return []


def next_epoch(tx: Connection) -> int:
    """A number that no claim, member or group has had: a group that is deleted and begun again has others."""
    row = tx.execute("INSERT INTO epochs VALUES (1, 1) ON CONFLICT DO UPDATE SET last = last + 1 RETURNING last")
    return int(row.fetchall()[0][0])


def _set_holder(tx: Connection, group: str, place: Place, member: str | None) -> None:
    tx.execute(
        "UPDATE claims SET member = ?, epoch = ? WHERE group_name = ? AND topic_id = ? AND partition = ?",
        (member, next_epoch(tx), group, *place),
    )


def _release(tx: Connection, group: str, member: str) -> None:
    tx.execute(
        "UPDATE claims SET member = NULL, epoch = ? WHERE group_name = ? AND member = ?",
        (next_epoch(tx), group, member),
    )


def _version(tx: Connection, group: str) -> int:
    row = tx.execute("SELECT version FROM groups WHERE name = ?", (group,)).fetchone()
    return int(row[0]) if row is not None else 0


def _topics_version(tx: Connection) -> int:
    return int(tx.execute("SELECT topics_version FROM log").fetchone()[0])


def _newest_topic(tx: Connection, group: str) -> int:
    """The newest topic that was there when the group began: their ids grow."""
    return int(tx.execute("SELECT newest_topic FROM groups WHERE name = ?", (group,)).fetchone()[0])


def changed(tx: Connection, group: str, newest_topic: int = 0) -> None:
    """Lets the group's members look at its division again. A group that is new keeps the newest topic of its time."""
    tx.execute(
        "INSERT INTO groups VALUES (?, ?, ?) ON CONFLICT DO UPDATE SET version = excluded.version",
        (group, next_epoch(tx), newest_topic),
    )


def _state(tx: Connection, group: str) -> tuple[object, object]:
    members = tx.execute("SELECT member, topics FROM members WHERE group_name = ? ORDER BY member", (group,))
    claims = tx.execute(
        "SELECT topic_id, partition, member FROM claims WHERE group_name = ? ORDER BY topic_id, partition", (group,)
    )
    return members.fetchall(), claims.fetchall()

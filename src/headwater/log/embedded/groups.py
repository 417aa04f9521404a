"""Consumer groups in the catalog: who is a member, who claims which partition, and up to where it has been read.

There is no coordinator. Every member, under the write lock, drops members whose lease has ended, works out the same
fair division from what it sees, gives back what it has too much of and takes what is free and due to it. A claim's
epoch grows each time it changes hands; a holder with an older epoch cannot move the offset any more.

    free  --take-->  claimed by m, epoch n+1  --give back, leave, lease ended-->  free
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Literal

from headwater.errors import Fenced
from headwater.log.embedded.catalog import Catalog
from headwater.log.embedded.segments import partition_range
from headwater.log.membership import Claim, Place
from headwater.log.topic import Topic
from headwater.system.clock import Clock
from headwater.system.sqlite import Connection


class CatalogMembership:
    """A `Membership` that is kept in the catalog."""

    def __init__(
        self,
        catalog: Catalog,
        clock: Clock,
        group: str,
        member: str,
        topics: Callable[[], Sequence[Topic]],
        *,
        lease_seconds: float,
        start: Literal["earliest", "latest"],
    ) -> None:
        self._catalog, self._clock = catalog, clock
        self.group, self.member = group, member
        self._find_topics, self._topics = topics, dict[int, Topic]()
        self._lease, self._start = lease_seconds, start
        self._epoch = 0

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
            self._topics = {topic.id: topic for topic in self._find_topics()}
        with self._catalog.write() as tx:
            before = _state(tx, self.group)
            epoch = self._stay(tx)
            self._drop_ended(tx)
            self._list_partitions(tx)
            self._settle(tx, in_use)
            if _state(tx, self.group) != before:
                _changed(tx, self.group)
            claims, version = self._claims(tx), _version(tx, self.group)
        self._epoch = epoch
        return claims, (version, topics_version)

    def offsets(self) -> dict[tuple[int, int], int]:
        """Up to where each partition that this member claims is committed."""
        with self._catalog.read() as tx:
            return {claim.place: claim.offset for claim in self._claims(tx)}

    def keep(self) -> bool:
        """Prolongs the lease, and ends the leases that are over; whether there were any."""
        with self._catalog.write() as tx:
            tx.execute(
                "UPDATE members SET lease_until = ? WHERE group_name = ? AND member = ? AND epoch = ?",
                (self._clock.monotonic() + self._lease, self.group, self.member, self._epoch),
            )
            ended = self._drop_ended(tx)
            if ended:
                _changed(tx, self.group)
            return ended

    def leave(self) -> None:
        """Gives everything back."""
        with self._catalog.write() as tx:
            mine = (self.group, self.member, self._epoch)
            tx.execute("DELETE FROM members WHERE group_name = ? AND member = ? AND epoch = ?", mine)
            if tx.changes():
                _release(tx, self.group, self.member)
                _changed(tx, self.group)

    def _stay(self, tx: Connection) -> int:
        """Is a member from now on; as of which epoch."""
        name = (self.group, self.member)
        row = tx.execute("SELECT epoch FROM members WHERE group_name = ? AND member = ?", name).fetchone()
        epoch = self._epoch
        if row is None or not epoch:
            _release(tx, *name)
            _changed(tx, self.group)
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

    def _settle(self, tx: Connection, in_use: Collection[Place]) -> None:
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
                self._take(tx, place)

    def _take(self, tx: Connection, place: Place) -> None:
        _set_holder(tx, self.group, place, self.member)
        first, end = partition_range(tx, self._topics[place[0]], place[1])
        # Where a new group begins is decided once: a member that dies before its first commit changes nothing.
        tx.execute(
            "UPDATE claims SET offset = ? WHERE group_name = ? AND topic_id = ? AND partition = ? AND offset IS NULL",
            (first if self._start == "earliest" else end, self.group, *place),
        )

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


def _set_holder(tx: Connection, group: str, place: Place, member: str | None) -> None:
    tx.execute(
        "UPDATE claims SET member = ?, epoch = epoch + 1 WHERE group_name = ? AND topic_id = ? AND partition = ?",
        (member, group, *place),
    )


def _release(tx: Connection, group: str, member: str) -> None:
    tx.execute(
        "UPDATE claims SET member = NULL, epoch = epoch + 1 WHERE group_name = ? AND member = ?", (group, member)
    )


def _version(tx: Connection, group: str) -> int:
    row = tx.execute("SELECT version FROM groups WHERE name = ?", (group,)).fetchone()
    return int(row[0]) if row is not None else 0


def _topics_version(tx: Connection) -> int:
    return int(tx.execute("SELECT topics_version FROM log").fetchone()[0])


def _changed(tx: Connection, group: str) -> None:
    tx.execute("INSERT INTO groups VALUES (?, 1) ON CONFLICT DO UPDATE SET version = version + 1", (group,))


def _state(tx: Connection, group: str) -> tuple[object, object]:
    members = tx.execute("SELECT member, topics FROM members WHERE group_name = ? ORDER BY member", (group,))
    claims = tx.execute(
        "SELECT topic_id, partition, member FROM claims WHERE group_name = ? ORDER BY topic_id, partition", (group,)
    )
    return members.fetchall(), claims.fetchall()

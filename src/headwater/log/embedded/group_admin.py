"""Groups of an embedded log from outside: consumers join them, their offsets are moved, and they are deleted."""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta

from headwater.errors import GroupActive, UnknownGroup, UsageError
from headwater.log.arguments import is_whole
from headwater.log.catalog import Catalog, OpenReader, Wakes
from headwater.log.commit import Committed, Request
from headwater.log.consumer import Consumer
from headwater.log.embedded.follow import check_place, check_reached, first_offset
from headwater.log.embedded.groups import CatalogMembership, changed, next_epoch
from headwater.log.embedded.registry import Registry
from headwater.log.embedded.segments import partition_range
from headwater.log.groups import Member, OffsetReset, is_pattern, matching
from headwater.log.membership import Place
from headwater.log.options import LEASE, ConsumerOptions, check_consumer_options
from headwater.log.port import Start
from headwater.log.topic import Topic
from headwater.model.durations import seconds_of
from headwater.model.position import Position
from headwater.system.clock import Clock
from headwater.system.names import check_name
from headwater.system.sqlite import Connection

_FORGET_MISSED = "DELETE FROM missed WHERE kind = 'group' AND follower = ?"


class GroupAdmin:
    """See `Log` for the contracts."""

    def __init__(
        self,
        catalog: Catalog,
        registry: Registry,
        wake: Wakes,
        clock: Clock,
        open_reader: OpenReader,
        submit: Callable[[Request], Committed],
    ) -> None:
        self._catalog, self._registry, self._wake, self._clock = catalog, registry, wake, clock
        self._open_reader, self._submit = open_reader, submit

    def consumer(self, topics: str | Sequence[str], group: str, options: ConsumerOptions) -> Consumer:
        check_name("group", group)
        check_consumer_options(options)
        wanted = [topics] if isinstance(topics, str) else list(dict.fromkeys(topics))
        if not wanted:
            raise UsageError("A consumer reads at least one topic.")
        start = options.get("start", "earliest")
        check_reached(start, self._catalog.position())
        membership = CatalogMembership(
            self._catalog,
            self._clock,
            group,
            check_name("member", options.get("member", f"{os.getpid()}-{uuid.uuid4().hex[:12]}")),
            lambda: self._topics(wanted),
            lease_seconds=seconds_of("lease", options.get("lease", LEASE)),
            start=start,
            seek=self._seek,
        )
        return Consumer(
            membership,
            self._open_reader,
            self._submit,
            self._wake,
            lease=options.get("lease", LEASE),
            on_gone=options.get("on_gone", "fail"),
            idle_timeout=options.get("idle_timeout"),
        )

    def names(self) -> list[str]:
        with self._catalog.read() as tx:
            return [row[0] for row in tx.execute("SELECT name FROM groups ORDER BY name")]

    def members(self, group: str) -> list[Member]:
        with self._catalog.read() as tx:
            _check_known(tx, group)
            return self._members(tx, group)

    def reset(
        self, group: str, to: Start, *, topics: str | Sequence[str] | None, force: bool, dry_run: bool
    ) -> list[OffsetReset]:
        _check_target(to)
        with self._catalog.read() as tx:
            _check_known(tx, group)
            chosen = self._chosen(tx, group, topics, to)
        check_reached(to, self._catalog.position())
        # Before the lock is held: a time and a position are looked up in the segments' files.
        found = {
            (topic.id, partition): self._seek(topic, partition, to)
            for topic in chosen
            for partition in range(topic.partitions)
            if isinstance(to, (datetime, Position))
        }
        if dry_run:
            with self._catalog.read() as tx:
                return [move for _, move in self._moves(tx, group, chosen, to, found)]
        with self._catalog.write() as tx:
            _check_known(tx, group)
            self._check_idle(tx, group, force=force)
            moves = self._moves(tx, group, chosen, to, found)
            # The members that hold them are fenced, and begin there again.
            epoch = next_epoch(tx)
            tx.executemany(
                "UPDATE claims SET offset = ?, moved_at = ?, epoch = ? "
                "WHERE group_name = ? AND topic_id = ? AND partition = ?",
                [(move.after, self._clock.now(), epoch, group, *place) for place, move in moves],
            )
            # The one who moves a group has decided what becomes of what it had missed.
            tx.executemany(f"{_FORGET_MISSED} AND topic_id = ? AND partition = ?", [(group, *one) for one, _ in moves])
            changed(tx, group)
        self._wake.touch()
        return [move for _, move in moves]

    def delete(self, group: str, *, force: bool) -> None:
        with self._catalog.write() as tx:
            _check_known(tx, group)
            self._check_idle(tx, group, force=force)
            for table, column in (("members", "group_name"), ("claims", "group_name"), ("groups", "name")):
                tx.execute(f"DELETE FROM {table} WHERE {column} = ?", (group,))
            tx.execute(_FORGET_MISSED, (group,))
        self._wake.touch()

    def _topics(self, wanted: Sequence[str]) -> list[tuple[Topic, bool]]:
        """The topics that are wanted, and whether by name. Raises `UnknownTopic` for one that is named."""
        named = {name: (self._registry.topic(name), True) for name in wanted if not is_pattern(name)}
        if len(named) == len(wanted):
            return list(named.values())
        everything = {topic.name: topic for topic in self._registry.topics()}
        fitting = {name: (everything[name], False) for name in matching(wanted, everything)}
        return list({**fitting, **named}.values())

    def _seek(self, topic: Topic, partition: int, start: Start) -> int:
        with self._open_reader(topic, partition) as reader:
            return first_offset(self._catalog, reader, start)

    def _chosen(self, tx: Connection, group: str, topics: str | Sequence[str] | None, to: Start) -> list[Topic]:
        """The topics whose offsets are to be moved. Raises `UsageError` for one that the group does not read."""
        rows = tx.execute("SELECT DISTINCT topic_id FROM claims WHERE group_name = ?", (group,))
        ids = {topic_id for (topic_id,) in rows}
        read = {topic.name: topic for topic in self._registry.topics() if topic.id in ids}
        names = list(read) if topics is None else [topics] if isinstance(topics, str) else list(topics)
        for name in names:
            if name not in read:
                self._registry.topic(name)
                raise UsageError(
                    f"Group {group!r} does not read topic {name!r}.",
                    hint=f"It reads {', '.join(read) or 'none'}. A consumer's start says where a topic begins for it.",
                )
        if isinstance(to, (int, Mapping)) and len(names) > 1:
            raise UsageError(
                f"An offset belongs to one topic, and group {group!r} reads {len(names)}.",
                hint=f"Name the topic as well: one of {', '.join(names)}.",
            )
        for name in names:
            check_place(read[name], to)
        return [read[name] for name in names]

    def _moves(
        self, tx: Connection, group: str, topics: Sequence[Topic], to: Start, found: Mapping[Place, int]
    ) -> list[tuple[Place, OffsetReset]]:
        moves = []
        for topic in topics:
            rows = tx.execute(
                "SELECT partition, offset FROM claims WHERE group_name = ? AND topic_id = ? ORDER BY partition",
                (group, topic.id),
            ).fetchall()
            for partition, before in rows:
                if isinstance(to, Mapping) and partition not in to:
                    continue
                place = topic.id, partition
                after = _offset(topic, partition, partition_range(tx, topic, partition), to, found.get(place))
                moves.append((place, OffsetReset(topic.name, partition, before, after)))
        return moves

    def _check_idle(self, tx: Connection, group: str, *, force: bool) -> None:
        members = self._members(tx, group)
        if members and not force:
            raise GroupActive(group, [member.name for member in members])

    def _members(self, tx: Connection, group: str) -> list[Member]:
        now = self._clock.monotonic()
        rows = tx.execute(
            "SELECT member, topics, lease_until FROM members WHERE group_name = ? AND boot = ? AND lease_until >= ? "
            "ORDER BY member",
            (group, self._clock.boot(), now),
        ).fetchall()
        names: dict[int, str] = dict(tx.execute("SELECT id, name FROM topics").fetchall())
        return [
            Member(
                group,
                member,
                tuple(sorted(names[topic] for topic in json.loads(topics) if topic in names)),
                timedelta(seconds=until - now),
            )
            for member, topics, until in rows
        ]


def _check_target(to: Start) -> None:
    """Raises `UsageError` for what is no place to go to."""
    if to in ("earliest", "latest") or is_whole(to, 0) or isinstance(to, (Mapping, datetime, Position)):
        return
    raise UsageError(
        f"A group cannot be reset to {to!r}.",
        hint="Use 'earliest', 'latest', an offset, a dict of offsets by partition, a datetime or a Position.",
    )


def _check_known(tx: Connection, group: str) -> None:
    if tx.execute("SELECT 1 FROM groups WHERE name = ?", (group,)).fetchone() is None:
        raise UnknownGroup(group)


def _offset(topic: Topic, partition: int, kept: tuple[int, int], to: Start, found: int | None) -> int:
    """Where a reset leads in a partition of which this much is kept. Raises `UsageError` for an offset beside it."""
    first, end = kept
    if found is not None:
        # Retention may have been here since it was looked up.
        return max(found, first)
    if isinstance(to, str):
        return first if to == "earliest" else end
    offset = to[partition] if isinstance(to, Mapping) else to
    if not isinstance(offset, int) or not is_whole(offset, first) or offset > end:
        raise UsageError(
            f"Topic {topic.name!r}, partition {partition}, has offsets {first} to {end}, not {offset!r}.",
            hint="Use an offset from the first to the last of these, or 'earliest' or 'latest'.",
        )
    return offset

"""The rules of the state machine that concern consumer groups."""

from __future__ import annotations

from datetime import timedelta
from typing import Literal

import pyarrow as pa
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from headwater.errors import Fenced, RecordsGone, TombstonesGone, UnknownGroup, UnknownTopic
from headwater.log.port import Start
from headwater.log.reading import Batch
from tests.property.group_model import GroupModel, MemberModel, Place
from tests.property.log_under_test import PICKS, LogUnderTest, choose
from tests.property.model import plain, shown
from tests.property.rows import rows

GROUPS = st.sampled_from(["billing", "billing", "billing", "search"])
LEASE = timedelta(days=100_000)
"""So long that leases end only where a rule says so."""

MEMBERS_MAX = 6


class GroupRules(LogUnderTest):
    """Members join, poll, commit, leave, and are taken for dead."""

    members = 0

    @precondition(lambda self: self.model.topics and len(self.consumers) < MEMBERS_MAX)
    @rule(
        group=GROUPS,
        pick=PICKS,
        both=st.booleans(),
        start=st.sampled_from(["earliest", "latest"]),
        on_gone=st.sampled_from(["fail", "earliest"]),
    )
    def join(
        self,
        group: str,
        pick: int,
        both: bool,
        start: Literal["earliest", "latest"],
        on_gone: Literal["fail", "earliest"],
    ) -> None:
        names = sorted(self.model.topics)
        topics = tuple(names) if both else (choose(names, pick),)
        self.members += 1
        name = f"member-{self.members}"
        consumer = self.log.consumer(topics, group=group, member=name, start=start, on_gone=on_gone, lease=LEASE)
        model = self.model.groups.setdefault(group, GroupModel())
        self.dead.get(group, set()).difference_update(model.ended)
        model.release(set(model.ended))
        member = MemberModel(name, topics, start, on_gone)
        self.consumers[group, name] = consumer, member
        self._watch(group, name)

    @precondition(lambda self: self.consumers)
    @rule(pick=PICKS, commit=st.booleans(), times=st.integers(1, 3))
    def poll(self, pick: int, commit: bool, times: int) -> None:
        key = choose(self.consumers, pick)
        for _ in range(times):
            self._poll(*key)
        if commit:
            self._commit(*key)

    @precondition(lambda self: self.consumers)
    @rule(pick=PICKS)
    def commit_offsets(self, pick: int) -> None:
        self._commit(*choose(self.consumers, pick))

    @precondition(lambda self: self.consumers and self.model.topics)
    @rule(pick=PICKS, other=PICKS, data=st.data())
    def commit_with_output(self, pick: int, other: int, data: st.DataObject) -> None:
        group, name = choose(self.consumers, pick)
        consumer, member = self.consumers[group, name]
        topic = choose(self.model.topics.values(), other)
        given = data.draw(st.lists(rows(topic), min_size=1, max_size=2))
        model = self.model.groups[group]
        may = model.may_commit(member)
        try:
            with self.log.commit() as commit:
                commit.append(topic.name, given)
                commit.offsets(consumer)
        except Fenced:
            assert not may
            member.rewind()
            return
        assert may
        model.commit(member)
        self.model.append(self.clock.now(), self.additions(topic, given))

    @precondition(lambda self: self.consumers)
    @rule(pick=PICKS)
    def leave(self, pick: int) -> None:
        group, name = choose(self.consumers, pick)
        consumer, _ = self.consumers.pop((group, name))
        consumer.close()
        self.model.groups[group].release({name})

    @precondition(lambda self: self.model.groups)
    @rule(pick=PICKS, other=PICKS, offset=PICKS, to=st.sampled_from(["earliest", "latest", "position", "offset"]))
    def reset(self, pick: int, other: int, offset: int, to: str) -> None:
        """The group is moved, in one topic, under whatever members it has."""
        group = choose(self.model.groups, pick)
        model = self.model.groups[group]
        read = sorted({serial for serial, _ in model.offsets})
        if not read:
            return
        serial = choose(read, other)
        places = sorted(place for place in model.offsets if place[0] == serial)
        name = next(topic.name for topic in self.model.topics.values() if topic.serial == serial)
        kept = {place: partition for place in places if (partition := self.model.place(place)) is not None}
        target: Start = "earliest"
        offsets = {place: partition.start for place, partition in kept.items()}
        if to in ("latest", "position"):
            target = self.log.position() if to == "position" else "latest"
            offsets = {place: partition.end for place, partition in kept.items()}
        if to == "offset":
            place = choose(places, offset)
            between = kept[place].end - kept[place].start
            offsets = {place: kept[place].start + offset % (between + 1)}
            target = {place[1]: offsets[place]}
        moves = self.log.reset_group(group, target, topics=name, force=True, dry_run=offset % 5 == 0)
        assert {(serial, move.partition): move.after for move in moves} == offsets
        assert {(serial, move.partition): move.before for move in moves} == {at: model.offsets[at] for at in offsets}
        if offset % 5:
            members = [member for key, (_, member) in self.consumers.items() if key[0] == group]
            model.reset(members, offsets)

    @precondition(lambda self: self.model.groups and self.has_news("delete_group", 12))
    @rule(pick=PICKS)
    def delete_group(self, pick: int) -> None:
        """Its members are told, and cannot commit what they were given."""
        self.looked("delete_group")
        group = choose(self.model.groups, pick)
        self.log.delete_group(group, force=True)
        self.model.groups.pop(group)
        self.dead.pop(group, None)
        for key in [key for key in self.consumers if key[0] == group]:
            consumer, member = self.consumers.pop(key)
            if member.uncommitted() or member.lost:
                with pytest.raises(Fenced):
                    consumer.commit()
            with pytest.raises((UnknownGroup, UnknownTopic)):
                consumer.poll(timedelta(0))
            consumer.close()

    @precondition(lambda self: self.dead)
    @rule()
    def leases_end(self) -> None:
        """Those of members that died."""
        self._end_leases(None)

    @precondition(lambda self: self.noticed())
    @rule(pick=PICKS, others=st.booleans(), again=st.booleans(), commit=st.booleans())
    def oversleep(self, pick: int, others: bool, again: bool, commit: bool) -> None:
        """A member is taken for dead, though it is not, and comes back before or after the others have taken over."""
        key = choose(self.noticed(), pick)
        self._poll(*key)
        self._end_leases(key)
        for other in list(self.consumers) if others else []:
            if other != key and other[0] == key[0]:
                self._poll(*other)
        if again:
            self._poll(*key)
        if commit:
            self._commit(*key)

    def noticed(self) -> list[tuple[str, str]]:
        """The members whose absence another one would notice."""
        return [key for key in self.consumers if len([other for other in self.consumers if other[0] == key[0]]) > 1]

    def _end_leases(self, silent: tuple[str, str] | None) -> None:
        keys = list(self.consumers)
        for _ in range(2):
            self.clock.advance(LEASE * 0.6)
            self.clock.set_back(LEASE * 0.6)
            for key in keys:
                if key != silent:
                    self.consumers[key][0]._membership.keep()
        for group, model in self.model.groups.items():
            over = self.dead.get(group, set()) | ({silent[1]} if silent is not None and silent[0] == group else set())
            if any(key[0] == group and key != silent for key in keys):
                model.release(over)
                self.dead.pop(group, None)
            else:
                model.ended |= over

    @precondition(lambda self: self.consumers)
    @rule(group=GROUPS)
    def settle(self, group: str) -> None:
        """Once everybody has committed and looked, everything is claimed, and as evenly as can be."""
        keys = [key for key in self.consumers if key[0] == group]
        members = [self.consumers[key][1] for key in keys]
        if not keys or any(name not in self.model.topics for member in members for name in member.topics):
            return
        for _ in range(4):
            for key in keys:
                self._poll(*key)
                self._commit(*key)
        if self.dead.get(group):
            return  # What is due to a member that is dead waits for it until its lease ends.
        holders = self.model.groups[group].holders
        wanted = {place for m in members for name in m.topics for place in self.model.topics[name].places()}
        assert wanted <= set(holders), "a partition is left to nobody"
        if len({member.topics for member in members}) == 1:
            loads = [len(member.claims) for member in members]
            assert max(loads) - min(loads) <= 1, "the division is uneven"

    def _watch(self, group: str, name: str) -> None:
        consumer, member = self.consumers[group, name]
        model = self.model.groups[group]
        for topic in member.topics:
            model.know(self.model.topics[topic].places())
        claimed = [self.place(*place) for place in consumer.partitions]
        model.watch(member, claimed, lambda place: self._begin(member, place))

    def _begin(self, member: MemberModel, place: Place) -> int:
        partition = self.model.place(place)
        assert partition is not None
        return partition.start if member.start == "earliest" else partition.end

    def _poll(self, group: str, name: str) -> None:
        consumer, member = self.consumers[group, name]
        missing = [topic for topic in member.topics if topic not in self.model.topics]
        told, raised, batch = len(consumer.gone), False, None
        try:
            batch = consumer.poll(timedelta(0))
        except UnknownTopic:
            assert missing
            return
        except RecordsGone:
            raised = True
        assert not missing
        self._watch(group, name)
        for gone in consumer.gone[told:]:
            self._miss(member, gone, batch)
        assert raised == (member.on_gone == "fail" and len(consumer.gone) > told)
        if batch is not None:
            self._receive(member, batch)
        elif not raised:
            for place, claim in member.claims.items():
                partition = self.model.place(place)
                assert partition is not None
                assert claim.next >= partition.start
                assert [entry for entry in partition.kept() if entry.offset >= claim.next] == []

    def _miss(self, member: MemberModel, gone: RecordsGone, batch: Batch | None) -> None:
        place = self.place(gone.topic, gone.partition)
        partition = self.model.place(place)
        assert partition is not None
        if isinstance(gone, TombstonesGone):
            dropped = partition.history[gone.first : gone.last + 1]
            assert all(entry.deleted and entry.offset in partition.removed for entry in dropped)
            assert gone.first >= member.claims[place].next
            if member.on_gone == "earliest" and (batch is None or self.place(batch.topic, batch.partition) != place):
                member.claims[place].next = gone.last + 1
            return
        assert (gone.first, gone.last) == (member.claims[place].next, partition.start - 1)
        assert gone.count == gone.last - gone.first + 1
        if member.on_gone == "earliest":
            member.claims[place].next = partition.start

    def _receive(self, member: MemberModel, batch: Batch) -> None:
        topic = self.model.topics[batch.topic]
        claim = member.claims[self.place(batch.topic, batch.partition)]
        partition = topic.partitions[batch.partition]
        due = [entry for entry in partition.kept() if claim.next <= entry.offset < batch.next_offset]
        assert due, "an empty batch"
        records: pa.Table = batch.records
        assert records["_offset"].to_pylist() == [entry.offset for entry in due]
        assert records["_deleted"].to_pylist() == [entry.deleted for entry in due]
        # A consumer goes over to a newer schema when it meets records of one, so that it may have an older one here.
        columns = [field for field in records.schema if field.name in topic.schema.names]
        for entry, row in zip(due, records.to_pylist(), strict=True):
            for column in [] if entry.deleted else columns:
                value = plain(shown(entry.row.get(column.name), column.type))
                assert plain(row[column.name]) == value
        claim.next = batch.next_offset
        assert claim.next <= partition.end

    def _commit(self, group: str, name: str) -> None:
        consumer, member = self.consumers[group, name]
        model = self.model.groups[group]
        moving = member.lost or bool(member.uncommitted())
        may = model.may_commit(member)
        try:
            consumer.commit()
        except Fenced:
            assert not may
            member.rewind()
            return
        assert may
        if moving:
            model.commit(member)
            self.model.begin(self.clock.now())

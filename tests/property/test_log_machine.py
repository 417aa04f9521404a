"""The embedded log against a model of it: whatever is done, in whatever order, both show the same.

`HYPOTHESIS_PROFILE=thorough pytest tests/property` looks for much longer. A failure prints the steps that lead to it.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from random import Random
from typing import Any, Literal

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, precondition, rule

from headwater.errors import (
    Fenced,
    InvalidRecords,
    OutOfSequence,
    PositionGone,
    RecordsGone,
    SchemaError,
    TopicExists,
)
from headwater.log.commit import Commit, Committed, Conflict
from headwater.log.embedded import EmbeddedLog
from headwater.log.segments import Segment
from headwater.log.topic import Cleanup
from tests.property.group_rules import PICKS, GroupRules
from tests.property.log_under_test import choose, moment, observed, position
from tests.property.model import Addition, End, Gone, PartitionModel, ProducerModel, Start, TopicModel
from tests.property.rows import KINDS, evolutions, keys, random_row, refusals, rows, to_arrow

NAMES = ("a", "b", "c")
SEEDS = st.integers(0, 1 << 32)
DAY = timedelta(days=1)
MICROSECONDS = 86_400_000_000
HEADERS = st.none() | st.dictionaries(st.sampled_from(["who", "why"]), st.sampled_from(["", "me"]))
PLACES = st.sampled_from(["offset", "position", "time"])
Segments = dict[str, list[Segment]]
Definition = tuple[str, int, Cleanup, bool, int]
DEFINITIONS: st.SearchStrategy[Definition] = st.tuples(
    st.sampled_from(sorted(KINDS)),
    st.integers(1, 3),
    st.sampled_from(["delete", "compact", "none"]),
    st.booleans(),
    st.sampled_from([1, 1_000, 10_000]),
)


class LogMachine(GroupRules):
    """Topics, appends, commits, producers, reads, upkeep, reopening and crashes."""

    # Topics

    @initialize(
        definitions=st.lists(DEFINITIONS, min_size=1, max_size=len(NAMES)), seed=SEEDS, commits=st.integers(0, 20)
    )
    def begin(self, definitions: list[Definition], seed: int, commits: int) -> None:
        for definition in definitions:
            self.create(definition)
        self.write(seed, commits)

    @precondition(lambda self: len(self.model.topics) < len(NAMES))
    @rule(definition=DEFINITIONS)
    def create_another(self, definition: Definition) -> None:
        self.create(definition)

    def create(self, definition: Definition) -> None:
        kind, partitions, cleanup, aged, segment_bytes = definition
        schema, key = KINDS[kind]
        name = next(name for name in NAMES if name not in self.model.topics)
        if cleanup == "compact" and not key:
            cleanup = "none"
        aged = aged and cleanup == "delete"
        self.log.create(
            name, schema, key=key, partitions=partitions, cleanup=cleanup, segment_bytes_max=segment_bytes,
            retention_age=DAY if aged else None, segment_age_max=10 * DAY, tombstone_grace=DAY,
        )  # fmt: skip
        self.model.create(
            name, schema, key=key, partitions=[PartitionModel() for _ in range(partitions)], cleanup=cleanup,
            retention_age=MICROSECONDS if aged else None, tombstone_grace=MICROSECONDS,
        )  # fmt: skip
        with pytest.raises(TopicExists):
            self.log.create(name, schema, key=key, partitions=partitions)

    @precondition(lambda self: self.model.topics and self.has_news("drop", 12))
    @rule(pick=PICKS)
    def drop(self, pick: int) -> None:
        self.looked("drop")
        name = choose(self.model.topics, pick)
        self.log.drop(name)
        self.model.drop(name)

    @precondition(lambda self: self.model.topics and self.has_news("topics"))
    @rule(pick=PICKS, change=PICKS)
    def evolve(self, pick: int, change: int) -> None:
        self.looked("topics")
        topic = choose(self.model.topics.values(), pick)
        with pytest.raises(SchemaError):
            self.log.alter(topic.name, schema=choose(refusals(topic.schema), change))
        schema = choose(evolutions(topic.schema), change)
        self.log.alter(topic.name, schema=schema)
        topic.schema = schema

    @precondition(lambda self: self.model.topics and self.has_news("topics"))
    @rule(pick=PICKS, cleanup=st.sampled_from(["delete", "compact", "none"]))
    def alter_cleanup(self, pick: int, cleanup: Cleanup) -> None:
        self.looked("topics")
        topic = self.topic_of(pick, keyed=True)
        if topic is not None:
            aged = cleanup == "delete"
            self.log.alter(topic.name, cleanup=cleanup, retention_age=DAY if aged else None)
            topic.cleanup, topic.retention_age = cleanup, MICROSECONDS if aged else None

    @precondition(lambda self: self.model.topics and self.has_news("topics"))
    @rule(pick=PICKS)
    def add_partition(self, pick: int) -> None:
        self.looked("topics")
        topic = self.topic_of(pick, keyed=False)
        if topic is not None and len(topic.partitions) < 4:
            self.log.alter(topic.name, partitions=len(topic.partitions) + 1)
            self.model.add_partition(topic.name)

    # Writing

    @precondition(lambda self: self.model.topics)
    @rule(seed=SEEDS, commits=st.integers(1, 8))
    def write(self, seed: int, commits: int) -> None:
        """Many small appends and some deletes."""
        random = Random(seed)
        for _ in range(commits):
            topic = random.choice(list(self.model.topics.values()))
            given = [random_row(random, topic) for _ in range(random.randint(1, 4))]
            deleted = bool(topic.key) and random.random() < 0.25
            if deleted:
                given = [{name: row[name] for name in topic.key} for row in given]
                self.log.delete(topic.name, given)
            else:
                self.log.append(topic.name, given)
            self.model.append(self.clock.now(), self.additions(topic, given, deleted=deleted))

    @precondition(lambda self: self.model.topics)
    @rule(pick=PICKS, data=st.data(), arrow=st.booleans(), times=st.integers(1, 4))
    def append(self, pick: int, data: st.DataObject, arrow: bool, times: int) -> None:
        topic = choose(self.model.topics.values(), pick)
        for _ in range(times):
            given = data.draw(st.lists(rows(topic), max_size=4))
            committed = self.log.append(topic.name, to_arrow(topic, given) if arrow and given else given)
            self.model.append(self.clock.now(), self.additions(topic, given))
            assert committed.commit == self.model.commit

    @precondition(lambda self: self.model.topics)
    @rule(pick=PICKS)
    def append_anywhere(self, pick: int) -> None:
        topic = self.topic_of(pick, keyed=False)
        if topic is not None:
            with self.log.commit() as commit:
                commit.append(topic.name, [{"id": 1}, {"id": 2}])
            assert isinstance(commit.result, Committed)
            [(_, partition)] = commit.result.offsets
            additions = [Addition(topic.name, partition, {"id": number}) for number in (1, 2)]
            self.model.append(self.clock.now(), additions)

    @precondition(lambda self: self.model.topics and self.has_news("misfit"))
    @rule(pick=PICKS, data=st.data())
    def append_what_does_not_fit(self, pick: int, data: st.DataObject) -> None:
        self.looked("misfit")
        topic = choose(self.model.topics.values(), pick)
        given = [*data.draw(st.lists(rows(topic), max_size=2)), {"surprise": 1}]
        with pytest.raises(InvalidRecords) as error:
            self.log.append(topic.name, given)
        assert [rejected.index for rejected in error.value.rejected] == [len(given) - 1]

    @precondition(lambda self: self.model.topics)
    @rule(pick=PICKS, data=st.data())
    def delete(self, pick: int, data: st.DataObject) -> None:
        topic = self.topic_of(pick, keyed=True)
        if topic is not None:
            given = data.draw(st.lists(keys(topic), min_size=1, max_size=3))
            self.log.delete(topic.name, given)
            self.model.append(self.clock.now(), self.additions(topic, given, deleted=True))

    @precondition(lambda self: self.model.topics)
    @rule(data=st.data(), headers=HEADERS, value=st.integers(0, 9), right=st.booleans())
    def commit(self, data: st.DataObject, headers: dict[str, str] | None, value: int, right: bool) -> None:
        """Records of several topics and two bookmarks, one of them on condition that may not hold."""
        fill, additions = self.draw_commit(data, headers)
        actual = self.model.bookmarks.get("right")
        expected: object = actual if right else [actual]
        with self.log.commit(headers=headers) as commit:
            fill(commit)
            commit.bookmark("left", value)
            commit.bookmark("right", {"value": value}, expect=expected)
        if right:
            self.model.append(self.clock.now(), additions, {"left": value, "right": {"value": value}})
            assert commit.position.commit == self.model.commit
        else:
            assert commit.result == Conflict("right", expected, actual)

    def draw_commit(
        self, data: st.DataObject, headers: dict[str, str] | None = None
    ) -> tuple[Callable[[Commit], None], list[Addition]]:
        """What puts records of any topics into a commit, and what they add."""
        steps: list[tuple[str, bool, list[dict[str, object]]]] = []
        additions: list[Addition] = []
        for pick in data.draw(st.lists(PICKS, min_size=1, max_size=4)):
            topic = choose(self.model.topics.values(), pick)
            deleted = bool(topic.key) and pick % 3 == 0
            given = data.draw(st.lists(keys(topic) if deleted else rows(topic), max_size=3))
            steps.append((topic.name, deleted, given))
            additions += self.additions(topic, given, deleted=deleted, headers=headers)

        def fill(commit: Commit) -> None:
            for name, deleted, given in steps:
                if deleted:
                    commit.delete(name, given)
                else:
                    commit.append(name, given)

        return fill, additions

    # Producers

    @rule(name=st.sampled_from(["import", "copy"]))
    def take_producer(self, name: str) -> None:
        model = self.model.producers.setdefault(name, ProducerModel())
        model.epoch += 1
        producer = self.log.producer(name=name)
        assert (producer.epoch, producer.next_sequence()) == (model.epoch, model.sequence + 1)
        self.producers.append(producer)

    @precondition(lambda self: self.producers and self.model.topics)
    @rule(pick=PICKS, ahead=st.integers(-1, 2), data=st.data())
    def send(self, pick: int, ahead: int, data: st.DataObject) -> None:
        producer = choose(self.producers, pick)
        assert producer.name is not None
        model = self.model.producers[producer.name]
        number = max(1, model.sequence + ahead)
        fill, additions = self.draw_commit(data)
        commit = self.log.commit(producer=producer, sequence=number)
        if producer.epoch != model.epoch or number > model.sequence + 1:
            with pytest.raises(Fenced if producer.epoch != model.epoch else OutOfSequence), commit:
                fill(commit)
            return
        with commit:
            fill(commit)
        assert isinstance(commit.result, Committed)
        assert commit.result.duplicate == (number <= model.sequence)
        if number > model.sequence:
            self.model.begin(self.clock.now())
            self.model.add(additions)
            model.sequence, model.commit = number, self.model.commit
        assert commit.position.commit == model.commit

    # Reading

    @precondition(lambda self: self.model.topics and self.has_news("read"))
    @rule(
        count=st.integers(1, 3), pick=PICKS, start=st.sampled_from(["earliest", "latest"]) | PLACES,
        end=st.none() | PLACES, first=PICKS, last=PICKS, by=st.sampled_from(["records", "batches", "following"]),
    )  # fmt: skip
    def read(
        self, count: int, pick: int, start: str, end: Literal["offset", "position", "time"] | None, first: int,
        last: int, by: str,
    ) -> None:  # fmt: skip
        self.looked("read")
        names = sorted(self.model.topics)
        names = [*names[pick % len(names) :], *names[: pick % len(names)]][:count]
        beginning: Start = start if start in ("earliest", "latest") else (start, self.place_of(start, first))  # type: ignore[assignment]
        ending: End = None if end is None else (end, self.place_of(end, last))
        log, places = self.log, _places(beginning, ending)
        try:
            expected = self.expected(self.model.read(names, beginning, ending))
        except Gone:
            with pytest.raises((RecordsGone, PositionGone)):
                list(log.read(names, **places))
            return
        if by == "batches":
            found = [
                (batch.topic, batch.partition, offset)
                for batch in log.batches(names, **places)
                for offset in batch.records["_offset"].to_pylist()
            ]
            assert sorted(found) == sorted(item[:3] for item in expected)
        else:
            follow = by == "following"
            assert observed(log.read(names, **places, follow=follow, patience=timedelta(0))) == expected

    def place_of(self, kind: str, pick: int) -> int:
        """An offset, commit or time that lies in the log, or just outside."""
        if kind == "position":
            return pick % (self.model.commit + 2)
        partitions = [partition for topic in self.model.topics.values() for partition in topic.partitions]
        if kind == "offset":
            return pick % (max(partition.end for partition in partitions) + 2)
        times = [entry.at for partition in partitions for entry in partition.history] or [self.clock.now()]
        return choose(times, pick) + pick % 3 - 1

    @precondition(lambda self: self.model.topics and self.has_news("table"))
    @rule(pick=PICKS, commit=PICKS)
    def table(self, pick: int, commit: int) -> None:
        self.looked("table")
        topic = self.topic_of(pick, keyed=True)
        if topic is not None:
            self.compare_table(self.log, topic, commit % (self.model.commit + 2))

    # Time and upkeep

    @precondition(lambda self: self.has_news("time"))
    @rule(hours=st.sampled_from([0, 1, 20, 30]), back=st.integers(0, 3))
    def time_passes(self, hours: int, back: int) -> None:
        self.looked("time")
        self.clock.advance(timedelta(hours=hours))
        if back == 0:
            self.clock.set_back(timedelta(hours=3))

    @precondition(lambda self: self.model.topics and self.has_news("seal"))
    @rule(pick=PICKS)
    def seal(self, pick: int) -> None:
        self.looked("seal")
        self.log.seal(choose(self.model.topics, pick))

    @precondition(lambda self: self.model.topics)
    @rule(pick=PICKS)
    def compact(self, pick: int) -> None:
        topic = self.topic_of(pick, keyed=True)
        if topic is not None and topic.cleanup == "compact":
            log = self.log
            segments = self.segments(log)
            removed = log.compact(topic.name)
            count = sum(len(partition.removed) for partition in topic.partitions)
            self.note_compaction(log, topic, segments, whole=True)
            assert sum(len(partition.removed) for partition in topic.partitions) == count + removed

    @precondition(lambda self: self.has_news("upkeep"))
    @rule()
    def upkeep(self) -> None:
        self.looked("upkeep")
        log = self.log
        segments = self.segments(log)
        log.upkeep()
        self.note_upkeep(log, segments, whole=True)

    def segments(self, log: EmbeddedLog) -> Segments:
        return {name: log.segments(name) for name in self.model.topics}

    def note_upkeep(self, log: EmbeddedLog, segments: Segments, *, whole: bool) -> None:
        """Takes over what a round removed, after checking that it might; `whole` if the round was not cut short."""
        for topic in self.model.topics.values():
            if topic.cleanup == "delete":
                self.note_retention(log, topic, segments, whole=whole)
            if topic.cleanup == "compact":
                self.note_compaction(log, topic, segments, whole=False)

    def note_retention(self, log: EmbeddedLog, topic: TopicModel, segments: Segments, *, whole: bool) -> None:
        if topic.retention_age is None:
            return
        before = self.clock.now() - topic.retention_age
        left = [(segment.partition, segment.base_offset) for segment in log.segments(topic.name)]
        happened = whole or left != [(segment.partition, segment.base_offset) for segment in segments[topic.name]]
        for segment in segments[topic.name]:
            partition = topic.partitions[segment.partition]
            if happened and partition.history[segment.end_offset - 1].at < before:
                partition.start = segment.end_offset

    def note_compaction(self, log: EmbeddedLog, topic: TopicModel, segments: Segments, *, whole: bool) -> None:
        kept = {(record.partition, record.offset) for record in log.read(topic.name)}
        for number, partition in enumerate(topic.partitions):
            complete = [s for s in segments[topic.name] if s.partition == number and s.state != "active"]
            sealed_end = max((segment.end_offset for segment in complete), default=0)
            due = topic.outdated(number, sealed_end, self.clock.now())
            removed = {entry.offset for entry in partition.kept() if (number, entry.offset) not in kept}
            assert removed <= due, f"compaction removed {removed - due} of partition {number}"
            assert not whole or removed == due, f"compaction left {due - removed} in partition {number}"
            topic.remove(number, removed, sealed_end)

    # Life

    @precondition(lambda self: self.has_news("life", 3))
    @rule(leave=st.booleans())
    def reopen(self, leave: bool) -> None:
        self.looked("life")
        if leave:
            for group, name in list(self.consumers):
                self.consumers.pop((group, name))[0].close()
                self.model.groups[group].release({name})
        self.close()
        self.bury()
        self.open()

    @precondition(lambda self: self.has_news("life", 3))
    @rule(reboot=st.booleans())
    def die(self, reboot: bool) -> None:
        self.looked("life")
        if reboot:
            self.clock.reboot()
        self.crash()
        if reboot:
            for group, names in self.dead.items():
                self.model.groups[group].ended |= names

    @precondition(lambda self: self.model.topics)
    @rule(operations=st.integers(0, 12), after=st.booleans(), data=st.data(), value=st.integers(0, 9))
    def die_while_committing(self, operations: int, after: bool, data: st.DataObject, value: int) -> None:
        fill, additions = self.draw_commit(data)

        def action(log: EmbeddedLog) -> None:
            with log.commit() as commit:
                fill(commit)
                commit.bookmark("left", value)

        survived = self.survives(operations, after, action)
        # The other process sees whether it happened: wholly or not at all, and for good.
        if self.handles[1].position().commit > self.model.commit:
            self.model.append(self.clock.now(), additions, {"left": value})
        else:
            assert not survived
        if not survived:
            self.crash()

    @precondition(lambda self: self.model.topics and self.has_news("life", 3))
    @rule(
        operations=st.integers(0, 25), after=st.booleans(), pick=PICKS,
        action=st.sampled_from(["seal", "compact", "upkeep", "evolve"]),
    )  # fmt: skip
    def die_while_tending(self, operations: int, after: bool, pick: int, action: str) -> None:
        self.looked("life")
        topic = choose(self.model.topics.values(), pick)
        if action == "compact" and topic.cleanup != "compact":
            action = "upkeep"
        schema = choose(evolutions(topic.schema), pick)
        segments = self.segments(self.handles[1])
        actions: dict[str, Callable[[EmbeddedLog], object]] = {
            "seal": lambda log: log.seal(topic.name),
            "compact": lambda log: log.compact(topic.name),
            "upkeep": lambda log: log.upkeep(),
            "evolve": lambda log: log.alter(topic.name, schema=schema),
        }
        survived = self.survives(operations, after, actions[action])
        if action == "evolve" and self.handles[1].topic(topic.name).schema.equals(schema):
            topic.schema = schema
        if not survived:
            self.crash()
        if action == "compact":
            self.note_compaction(self.handles[1], topic, segments, whole=survived)
        if action == "upkeep":
            self.note_upkeep(self.handles[1], segments, whole=survived)


def _places(start: Start, end: End) -> dict[str, Any]:
    """The arguments of a read."""
    return {"start": start if isinstance(start, str) else _place(*start), "end": None if end is None else _place(*end)}


def _place(kind: str, value: int) -> object:
    return position(value) if kind == "position" else moment(value) if kind == "time" else value


pytestmark = pytest.mark.timeout(24 * 3600)  # A thorough run takes as long as it is asked to.
TestLogMachine = LogMachine.TestCase
TestLogMachine.settings = settings(max_examples=max(1, settings().max_examples // 4), stateful_step_count=40)

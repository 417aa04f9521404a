"""A log and its model, side by side: filled, restarted, and compared in everything that a user can see."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import TypeVar

import pyarrow as pa
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from headwater.errors import PositionGone, TopicExists, UsageError
from headwater.log.commit import Commit
from headwater.log.consumer import Consumer
from headwater.log.embedded.log import EmbeddedLog
from headwater.log.embedded.position import commit_of, commit_position
from headwater.log.producer import Producer
from headwater.log.topic import Cleanup
from headwater.model.position import Position
from headwater.model.record import Record
from headwater.testing.clock import ManualClock
from tests.property.crashing import Crash, CrashingStorage
from tests.property.group_model import MemberModel, Place
from tests.property.model import Addition, Entry, Gone, LogModel, PartitionModel, Row, TopicModel, plain
from tests.property.rows import KINDS, keys, partition_for, random_row, rows

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)
# A file system in memory, where there is one: what a sync costs is not what is tested here.
MEMORY = Path("/dev/shm")
BOOKMARKS = ("left", "right")

NAMES = ("a", "b", "c")
DAY = timedelta(days=1)
PICKS = st.integers(0, 1 << 16)
SEEDS = st.integers(0, 1 << 32)
Definition = tuple[str, int, Cleanup, bool, int, bool]
DEFINITIONS: st.SearchStrategy[Definition] = st.tuples(
    st.sampled_from(sorted(KINDS)),
    st.integers(1, 3),
    st.sampled_from(["delete", "compact", "none"]),
    st.booleans(),
    st.sampled_from([1, 1_000, 10_000]),
    st.booleans(),
)

T = TypeVar("T")


def position(commit: int) -> Position:
    return commit_position(commit)


def moment(microseconds: int) -> datetime:
    return EPOCH + microseconds * MICROSECOND


def choose(things: Iterable[T], pick: int) -> T:
    """One of the things; rules draw a number rather than a thing, because what there is changes as they run."""
    listed = list(things)
    return listed[pick % len(listed)]


def observed(records: Iterable[Record]) -> list[tuple[object, ...]]:
    return [
        (r.topic, r.partition, r.offset, commit_of(r.position), (r.at - EPOCH) // MICROSECOND, plain(r.key),
         plain(r.value), dict(r.headers))
        for r in records
    ]  # fmt: skip


class LogUnderTest(RuleBasedStateMachine):
    """Two handles of one log, as two processes would have them, used in turn. The first may be made to crash."""

    def __init__(self) -> None:
        super().__init__()
        self.root = Path(tempfile.mkdtemp(prefix="headwater-machine-", dir=MEMORY if MEMORY.is_dir() else None))
        self.clock = ManualClock()
        self.model = LogModel()
        self.generation = 0
        self.turn = 0
        self.seen: dict[str, int] = {}
        self.consumers: dict[tuple[str, str], tuple[Consumer, MemberModel]] = {}
        self.dead: dict[str, set[str]] = {}
        self.producers: dict[str, list[Producer]] = {}
        self.open()

    @initialize(
        definitions=st.lists(DEFINITIONS, min_size=1, max_size=len(NAMES)), seed=SEEDS, commits=st.integers(0, 20)
    )
    def begin(self, definitions: list[Definition], seed: int, commits: int) -> None:
        for definition in definitions:
            self.create(definition)
        self.write(seed, commits)

    def create(self, definition: Definition) -> None:
        kind, partitions, cleanup, aged, segment_bytes, archived = definition
        schema, key = KINDS[kind]
        name = next(name for name in NAMES if name not in self.model.topics)
        if cleanup == "compact" and not key:
            cleanup = "none"
        # With an archive, retention says what stays here, and nothing is deleted.
        archive = self.root / "archive" if archived else None
        aged = aged and (cleanup == "delete" or archived)
        self.log.create(
            name, schema, key=key, partitions=partitions, cleanup=cleanup, segment_bytes_max=segment_bytes,
            retention_age=DAY if aged else None, segment_age_max=10 * DAY, tombstone_grace=DAY, hold_age_max=0,
            archive=archive,
        )  # fmt: skip
        self.model.create(
            name, schema, key=key, partitions=[PartitionModel() for _ in range(partitions)], cleanup=cleanup,
            retention_age=DAY // MICROSECOND if aged and not archived else None, tombstone_grace=DAY // MICROSECOND,
        )  # fmt: skip
        with pytest.raises(TopicExists):
            self.log.create(name, schema, key=key, partitions=partitions)

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

    @property
    def directory(self) -> Path:
        return self.root / str(self.generation)

    @property
    def log(self) -> EmbeddedLog:
        """Another handle each time."""
        self.turn += 1
        return self.handles[self.turn % 2]

    def has_news(self, purpose: str, commits: int = 1) -> bool:
        """Whether so much was committed since a rule of this kind ran: without, it would only run for nothing."""
        return self.model.commit >= self.seen.get(purpose, 0) + commits

    def looked(self, purpose: str) -> None:
        self.seen[purpose] = self.model.commit

    def open(self) -> None:
        self.storage = CrashingStorage()
        self.handles = [
            EmbeddedLog(self.directory, clock=self.clock, upkeep=False, storage=self.storage),
            EmbeddedLog(self.directory, clock=self.clock, upkeep=False),
        ]

    def close(self) -> None:
        for handle in self.handles:
            handle.close()
        for consumer, _ in self.consumers.values():
            consumer.close()

    def bury(self) -> None:
        """Nobody closed these members: the log believes in them until their leases end."""
        for group, name in self.consumers:
            self.dead.setdefault(group, set()).add(name)
        self.consumers.clear()

    def crash(self) -> None:
        """What a killed process leaves is what the directory holds at that moment."""
        before = self.directory
        self.generation += 1
        shutil.copytree(before, self.directory)
        self.storage.disarm()
        self.close()
        shutil.rmtree(before)
        self.bury()
        self.open()
        assert list(self.handles[1].check()) == []

    def survives(self, operations: int, after: bool, action: Callable[[EmbeddedLog], object]) -> bool:
        """Whether the first handle came to the end of the action, before it crashed at one of its operations."""
        self.storage.arm(operations, after=after)
        try:
            action(self.handles[0])
        except Crash:
            return False
        finally:
            self.storage.disarm()
        return True

    def teardown(self) -> None:
        try:
            assert list(self.handles[0].check()) == []
        finally:
            self.close()
            shutil.rmtree(self.root)

    def topic_of(self, pick: int, keyed: bool | None = None) -> TopicModel | None:
        """One of the topics, with or without a key, if there is one."""
        fitting = [topic for topic in self.model.topics.values() if keyed is None or bool(topic.key) == keyed]
        return choose(fitting, pick) if fitting else None

    def additions(
        self,
        topic: TopicModel,
        rows: Sequence[Row],
        *,
        deleted: bool = False,
        headers: Mapping[str, str] | None = None,
    ) -> list[Addition]:
        """What an append of the rows adds to which partition."""
        found = []
        for row in rows:
            own = row.get("_headers") or {}
            assert isinstance(own, Mapping)
            merged = {**(headers or {}), **own}
            values = {name: value for name, value in row.items() if not name.startswith("_")}
            found.append(Addition(topic.name, partition_for(topic, row), values, deleted, merged))
        return found

    def expected(self, entries: Iterable[tuple[str, int, Entry]]) -> list[tuple[object, ...]]:
        found: list[tuple[object, ...]] = []
        for name, number, entry in entries:
            topic = self.model.topics[name]
            key: object = topic.key_of(entry.row)
            if len(topic.key) < 2:
                key = topic.key_of(entry.row)[0] if topic.key else None
            value = None if entry.deleted else topic.value_of(entry.row)
            found.append((name, number, entry.offset, entry.commit, entry.at, key, value, dict(entry.headers)))
        return found

    def place(self, topic: str, partition: int) -> Place:
        return self.model.topics[topic].serial, partition

    @invariant()
    def the_log_is_the_model(self) -> None:
        log, model = self.handles[(self.turn + 1) % 2], self.model
        assert commit_of(log.position()) == model.commit
        assert [topic.name for topic in log.topics()] == sorted(model.topics)
        for topic in model.topics.values():
            assert log.topic(topic.name).schema.equals(topic.schema)
            entries = model.read([topic.name], "earliest", None)
            assert observed(log.read(topic.name)) == self.expected(entries)
            if self.turn % 4 == 0:
                scanned = log.scan(topic.name)
                assert scanned["_offset"].to_pylist() == [e.offset for p in topic.partitions for e in p.kept()]
                assert scanned.select(topic.schema.names).schema.equals(topic.schema)
            if topic.key:
                self.compare_table(log, topic, None)
                self.compare_table(log, topic, self.turn * 7919 % (model.commit + 1))
        for name in BOOKMARKS:
            assert log.bookmark(name) == model.bookmarks.get(name)
        self.compare_groups(log)

    def compare_table(self, log: EmbeddedLog, topic: TopicModel, commit: int | None) -> None:
        at = None if commit is None else position(commit)
        if commit is not None and commit > self.model.commit:
            with pytest.raises(UsageError):
                log.table(topic.name, at=at)
            return
        try:
            expected = topic.table(self.model.commit if commit is None else commit)
        except Gone:
            with pytest.raises(PositionGone):
                log.table(topic.name, at=at)
            return
        found: pa.Table = log.table(topic.name, at=at)
        rows = {topic.key_of(row): plain(row) for row in map(_with_maps, found.to_pylist())}
        assert found.num_rows == len(rows), "a key has two rows"
        assert {key: plain(_with_maps(row)) for key, row in expected.items()} == rows

    def compare_groups(self, log: EmbeddedLog) -> None:
        expected = {}
        for name, group in self.model.groups.items():
            for topic in self.model.topics.values():
                for place in topic.places():
                    if place in group.offsets:
                        partition = topic.partitions[place[1]]
                        offset = group.offsets[place] or 0
                        behind, gone = partition.end - max(offset, partition.start), max(0, partition.start - offset)
                        gone += len(self._missed_tombstones(log, name, topic.name, partition, place[1], offset))
                        holder = group.holders.get(place)
                        expected[name, topic.name, place[1]] = (offset, partition.end, behind, gone, holder)
        assert {
            (lag.group, lag.topic, lag.partition): (lag.offset, lag.end, lag.records, lag.gone, lag.member)
            for lag in log.lag()
        } == expected
        assert log.groups() == sorted(self.model.groups)

    @staticmethod
    def _missed_tombstones(
        log: EmbeddedLog, group: str, topic: str, partition: PartitionModel, number: int, offset: int
    ) -> list[int]:
        """The tombstones that a group has still to pass, and that were dropped, as the log says it."""
        found = [
            missed
            for one in log.followers.missed(group)
            if (one.kind, one.topic, one.partition) == ("group", topic, number)
            for missed in range(max(one.first, offset, partition.start), one.last + 1)
        ]
        assert all(partition.history[missed].deleted and missed in partition.removed for missed in found)
        return found


def _with_maps(row: Mapping[str, object]) -> dict[str, object]:
    """A map column reads as a list of pairs; rows are compared with the pairs as a dict."""
    return {
        name: dict(value) if isinstance(value, list) and value and isinstance(value[0], tuple) else value
        for name, value in row.items()
    }

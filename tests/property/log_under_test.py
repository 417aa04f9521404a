"""A log and its model, side by side: opened, restarted, and compared in everything that a user can see."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TypeVar

import pyarrow as pa
import pytest
from hypothesis.stateful import RuleBasedStateMachine, invariant

from headwater.errors import PositionGone
from headwater.log.consumer import Consumer
from headwater.log.embedded import EmbeddedLog
from headwater.log.producer import Producer
from headwater.model.position import Position
from headwater.model.record import Record
from headwater.model.types import CommitNumber
from headwater.testing.clock import ManualClock
from tests.property.crashing import Crash, CrashingStorage
from tests.property.group_model import MemberModel, Place
from tests.property.model import Addition, Entry, Gone, LogModel, Row, TopicModel, plain
from tests.property.rows import partition_for

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)
# A file system in memory, where there is one: what a sync costs is not what is tested here.
MEMORY = Path("/dev/shm")
BOOKMARKS = ("left", "right")

T = TypeVar("T")


def position(commit: int) -> Position:
    return Position(CommitNumber(commit))


def moment(microseconds: int) -> datetime:
    return EPOCH + microseconds * MICROSECOND


def choose(things: Iterable[T], pick: int) -> T:
    """One of the things; rules draw a number rather than a thing, because what there is changes as they run."""
    listed = list(things)
    return listed[pick % len(listed)]


def observed(records: Iterable[Record]) -> list[tuple[object, ...]]:
    return [
        (r.topic, r.partition, r.offset, r.position.commit, (r.at - EPOCH) // MICROSECOND, plain(r.key),
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
        self.producers: list[Producer] = []
        self.open()

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
        assert log.position().commit == model.commit
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
        for name in BOOKMARKS:
            assert log.bookmark(name) == model.bookmarks.get(name)
        self.compare_groups(log)

    def compare_table(self, log: EmbeddedLog, topic: TopicModel, commit: int | None) -> None:
        at = None if commit is None else position(commit)
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
                        holder = group.holders.get(place)
                        expected[name, topic.name, place[1]] = (offset, partition.end, behind, gone, holder)
        assert {
            (lag.group, lag.topic, lag.partition): (lag.offset, lag.end, lag.records, lag.gone, lag.member)
            for lag in log.lag()
        } == expected
        assert log.groups() == sorted(self.model.groups)


def _with_maps(row: Mapping[str, object]) -> dict[str, object]:
    """A map column reads as a list of pairs; rows are compared with the pairs as a dict."""
    return {
        name: dict(value) if isinstance(value, list) and value and isinstance(value[0], tuple) else value
        for name, value in row.items()
    }

"""Pipelines that forget: whatever is appended, deleted, missed and restarted, they are made of exactly what counts."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.engine.bases import BASES_MAX, Bases, reaches
from headwater.engine.definition import Definition
from headwater.engine.following import Following, base_follower_of, follower_of
from headwater.engine.publication import Base, Generation
from headwater.engine.remembered import Remembered
from headwater.errors import HistoryGone, PositionGone, RecordsGone
from headwater.log.cutting import Cutter, OffsetRange
from headwater.log.embedded.log import EmbeddedLog
from headwater.log.topic import Memory
from headwater.model.position import START
from headwater.testing.clock import ManualClock

DAY = timedelta(days=1)
PARTITIONS = 2
Place = tuple[int, int]


class Reader:
    """A pipeline in small: what it is made of is a bag of records. It keeps its own bases, each a copy of the bag."""

    def __init__(self, log: EmbeddedLog) -> None:
        self.log, self.number, self.position, self.batch = log, 0, START, 0
        self.content: Counter[Place] = Counter()
        self.kept: list[tuple[Base, Counter[Place]]] = []
        self.following, self.cutter = self._opened()
        self.rebuild()

    def _opened(self) -> tuple[Following, Cutter]:
        return Following(self.log, "reader", ["t"], None), self.log.cutter(["t"])

    def rebuild(self) -> None:
        self.number, self.position = self.number + 1, START
        self.content.clear()
        self.kept.clear()
        self._hold()
        self.following.keep_only([self.number])

    def bases(self, generation: int) -> list[Base]:
        assert generation == self.number
        return [base for base, _ in self.kept]

    def take_base(
        self, generation: int, epoch: int, offsets: Mapping[str, Mapping[int, int]], kept: Collection[int] = ()
    ) -> Base:
        base = Base(generation, self.batch, self.position, offsets, epoch)
        self.kept = [one for one in self.kept if one[0].batch in kept] + [(base, self.content.copy())]
        assert len(self.kept) <= BASES_MAX
        return base

    def replayed(self) -> Counter[Place] | None:
        """What a replay from the oldest base that the log reaches gives; None without one."""
        for base, content in self.kept:
            if not reaches(self.log, ["t"], base, self.position):
                continue
            found, start, cutter = content.copy(), base.position, self.log.cutter(["t"])
            while start != self.position:
                cut = cutter.cut(start, self.position, 2)
                assert not cut.forgotten
                for read in cut.ranges:
                    found.update(self._records(read))
                start = cut.end
            return +found
        return None

    def restart(self) -> None:
        """As after a crash: what it has said last may be older than where it is."""
        self.following, self.cutter = self._opened()
        self._hold()

    def step(self, rows: int, *, says: bool) -> bool:
        """A batch; whether it could be read."""
        try:
            cut = self.following.check(self.cutter.cut(self.position, self.log.position(), rows))
        except (RecordsGone, PositionGone):
            self.rebuild()
            return False
        for forgotten in cut.forgotten:
            self.content.subtract(self._records(forgotten))
        for read in cut.ranges:
            self.content.update(self._records(read))
        self.position, self.batch = cut.end, self.batch + 1
        if says:
            self._hold()
            self._look_at_bases()
        return True

    def _look_at_bases(self) -> None:
        Bases(self.log, self, 0, "reader", ["t"]).keep(self._generation(), now=True)

    def _hold(self) -> None:
        generation = self._generation()
        self.following.hold(generation, now=True)
        self.following.begin(self.cutter, generation)

    def _generation(self) -> Generation:
        return Generation(self.number, "", Definition(), "current", self.batch, self.position, None, 0)

    def _records(self, one: OffsetRange) -> list[Place]:
        return [
            (one.partition, offset)
            for batch in self.log.batches("t", start=one.first, end=one.end, partition=one.partition)
            for offset in batch.records["_offset"].to_pylist()
        ]


@dataclass(frozen=True)
class Append:
    """Records in one commit."""

    count: int
    partition: int
    seals: bool


@dataclass(frozen=True)
class TimePasses:
    """Days pass, and the log looks after itself."""

    days: float


@dataclass(frozen=True)
class Batch:
    """The pipeline takes a batch, after which it may say how far it is."""

    rows: int
    says: bool


Life = Literal["catch up", "restart", "rebuild"]
Event = Append | TimePasses | Batch | Life

APPENDS = st.builds(Append, st.integers(1, 3), st.integers(0, PARTITIONS - 1), st.booleans())
DAYS = st.builds(TimePasses, st.sampled_from([0.4, 0.7, 1.1, 4.0]))
BATCHES = st.builds(Batch, st.integers(1, 5), st.booleans())
LIVES = st.sampled_from(["catch up", "catch up", "restart", "rebuild"])
EVENTS = st.lists(APPENDS | DAYS | BATCHES | LIVES, min_size=15, max_size=40)
HOLDS = st.sampled_from([timedelta(0), 2 * DAY, None])


class World:
    """One topic with retention, and a pipeline that is ahead, behind, stopped for long or rebuilt."""

    def __init__(self, directory: str, views: Memory, hold: timedelta | None) -> None:
        self.clock, self.views = ManualClock(), views
        self.log = EmbeddedLog(Path(directory), clock=self.clock, durability="os", upkeep=False)
        self.log.create("t", "id int", partitions=PARTITIONS, retention_age=DAY, hold_age_max=hold, views=views)
        self.commits: dict[Place, int] = {}
        self.reader = Reader(self.log)

    def happen(self, event: Event) -> None:
        match event:
            case Append():
                self._append(event)
            case TimePasses():
                self.clock.advance(event.days * DAY)
                self.log.upkeep()
            case Batch():
                self.reader.step(event.rows, says=event.says)
            case "catch up":
                while self.reader.position != self.log.position():
                    self.reader.step(1000, says=True)
            case "restart":
                self.reader.restart()
            case "rebuild":
                self.reader.rebuild()

    def _append(self, event: Append) -> None:
        end = self.log.offsets("t")[event.partition][1]
        rows = [{"id": number} for number in range(event.count)]
        position = self.log.append("t", rows, partition=event.partition)
        for number in range(event.count):
            self.commits[event.partition, end + number] = int(str(position))
        if event.seals:
            self.log.seal("t")

    def check_content(self) -> None:
        """The pipeline is made of every record up to its position that counts there, each once."""
        reader, followers = self.reader, self.log.followers
        follower = followers.find(follower_of("reader", reader.number))
        assert follower is not None
        since, trims = follower.since["t"], followers.trimmed("t", reader.position)
        assert self.views == "forget" or not trims
        position = int(str(reader.position))
        counted = {
            (partition, offset): 1
            for (partition, offset), commit in self.commits.items()
            if commit <= position and offset >= max(since[partition], trims.get(partition, 0))
        }
        assert {place: weight for place, weight in reader.content.items() if weight} == counted

    def check_proof(self) -> None:
        """What can be proved is what the log has; views that forget can be proved once they have caught up."""
        reader = self.reader
        remembered = Remembered(self.log, "reader", reader.number, Definition())
        try:
            since = remembered.since("v", ["t"], reader.position).get("t", {})
        except HistoryGone:
            assert self.views == "keep" or reader.position != self.log.position()
            self._check_replay()
            return
        read = self.log.scan("t", start=since or "earliest", end=reader.position)
        places = zip(read["_partition"].to_pylist(), read["_offset"].to_pylist(), strict=True)
        assert Counter(places) == +reader.content

    def _check_replay(self) -> None:
        """A pipeline whose newest base was not overtaken by a limit can be replayed from a base, and is what that
        gives."""
        reader = self.reader
        replayed = reader.replayed()
        if replayed is not None:
            assert replayed == +reader.content
            return
        overtaken = self.log.followers.missed(base_follower_of("reader", reader.number))
        assert self.views == "forget" or overtaken or not reader.kept


@pytest.mark.parametrize("views", ["forget", "keep"])
@settings(max_examples=25)
@given(hold=HOLDS, events=EVENTS)
def test_a_pipeline_is_made_of_what_counts(views: Memory, hold: timedelta | None, events: list[Event]) -> None:
    with tempfile.TemporaryDirectory(prefix="headwater-forgetting-") as directory:
        world = World(directory, views, hold)
        with world.log:
            for event in [*events, "catch up"]:
                world.happen(event)
                world.check_content()
                world.check_proof()

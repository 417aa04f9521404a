"""Bases: when a pipeline takes the next one, which are kept, what is held for them, and which still reach."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from datetime import timedelta
from pathlib import Path

import pytest

from headwater.engine.bases import BASES_MAX, Bases, reaches
from headwater.engine.definition import Definition
from headwater.engine.following import Following, base_follower_of
from headwater.engine.publication import Base, Generation
from headwater.errors import LogUnavailable
from headwater.log.embedded.log import EmbeddedLog
from headwater.log.lag import LagLimits
from headwater.model.position import Position
from headwater.testing.clock import ManualClock

DAY = timedelta(days=1)
FOLLOWER = base_follower_of("shop", 1)


class Store:
    """Notes which bases there are."""

    def __init__(self) -> None:
        self.kept: list[Base] = []

    def bases(self, generation: int) -> list[Base]:
        return list(self.kept)

    def take_base(
        self, generation: int, epoch: int, offsets: Mapping[str, Mapping[int, int]], kept: Collection[int] = ()
    ) -> Base:
        base = Base(generation, epoch, Position.parse(self.position), offsets, 0)
        self.kept = [one for one in self.kept if one.batch in kept] + [base]
        return base

    position = "0"


class Shop:
    """A pipeline that has read everything, whose bases are numbered by what it has read."""

    def __init__(self, log: EmbeddedLog, *topics: str) -> None:
        self.log, self.topics, self.store = log, topics, Store()
        self.following = Following(log, "shop", topics, None)

    def read(self, status: str = "current") -> None:
        position = self.log.position()
        self.store.position = str(position)
        generation = Generation(1, "", Definition(), "current", 1, position, None, 0)
        if status != "current":
            generation = Generation(1, "", Definition(), "building", 1, position, None, 0)
        self.following.hold(generation, now=True)
        number = sum(end for _, end in self.log.offsets(self.topics[0]).values())
        Bases(self.log, self.store, number, "shop", self.topics).keep(generation, now=True)

    @property
    def taken(self) -> list[int]:
        return [one.offsets[self.topics[0]][0] for one in self.store.kept]

    def reach(self) -> list[bool]:
        return [reaches(self.log, self.topics, one, self.log.position()) for one in self.store.kept]


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def log(tmp_path: Path, clock: ManualClock) -> Iterator[EmbeddedLog]:
    with EmbeddedLog(tmp_path, durability="os", upkeep=False, clock=clock) as log:
        yield log


def fill(log: EmbeddedLog, count: int, topic: str = "t") -> None:
    log.append(topic, [{"id": number} for number in range(count)])
    log.seal(topic)


@pytest.mark.parametrize(
    "settings", [{}, {"retention_age": DAY}, {"views": "keep"}, {"views": "keep", "cleanup": "none"}]
)
def test_none_is_taken_where_nothing_is_remembered(log: EmbeddedLog, settings: dict[str, object]) -> None:
    log.create("t", "id int", **settings)  # type: ignore[arg-type]
    fill(log, 3)
    shop = Shop(log, "t")
    shop.read()
    assert shop.taken == []
    assert log.followers.find(FOLLOWER) is None


def test_none_is_taken_of_a_generation_that_readers_do_not_see(log: EmbeddedLog) -> None:
    log.create("t", "id int", retention_age=DAY, views="keep")
    fill(log, 3)
    shop = Shop(log, "t")
    shop.read("building")
    assert shop.taken == []


def test_the_next_is_taken_when_more_than_half_of_what_is_kept_came_later(log: EmbeddedLog, clock: ManualClock) -> None:
    log.create("t", "id int", retention_age=DAY, views="keep")
    shop = Shop(log, "t")
    for end, taken in ((4, [4]), (8, [4]), (9, [4, 9]), (18, [4, 9]), (20, [4, 9, 20]), (42, [4, 9, 42])):
        fill(log, end - log.offsets("t")[0][1])
        clock.advance(DAY / 10)
        shop.read()
        assert shop.taken == taken
    assert len(shop.store.kept) == BASES_MAX
    assert shop.reach() == [True] * 3
    clock.advance(DAY * 0.55)
    log.upkeep()
    assert log.offsets("t")[0] == (8, 42)
    assert shop.reach() == [False, True, True]
    fill(log, 40)
    shop.read()
    assert shop.taken == [9, 42, 82]


def test_what_comes_after_the_newest_waits_for_the_next(log: EmbeddedLog, clock: ManualClock) -> None:
    log.create("t", "id int", retention_age=DAY, views="keep", hold_age_max=DAY)
    shop = Shop(log, "t")
    fill(log, 4)
    shop.read()
    fill(log, 3)
    shop.read()
    assert shop.taken == [4]
    clock.advance(DAY * 1.5)
    log.upkeep()
    assert log.offsets("t")[0] == (4, 7), "the pipeline has read all of it, and the base has not"
    (lag,) = [one for one in log.followers.lag() if one.group == FOLLOWER]
    assert (lag.kind, lag.records, lag.held > 0, lag.alarms(LagLimits(records=0, risk=0))) == ("base", 3, True, [])
    shop.read()
    assert shop.taken == [4, 7]
    log.upkeep()
    assert log.offsets("t")[0] == (7, 7)


def test_a_base_that_a_limit_has_overtaken_is_replaced(log: EmbeddedLog, clock: ManualClock) -> None:
    log.create("t", "id int", retention_age=DAY, views="keep", hold_age_max=timedelta(0))
    shop = Shop(log, "t")
    fill(log, 4)
    shop.read()
    fill(log, 3)
    clock.advance(DAY * 1.5)
    log.upkeep()
    assert [one.records for one in log.followers.missed(FOLLOWER)] == [3]
    assert shop.reach() == [False]
    shop.read()
    assert (shop.taken, shop.reach(), log.followers.missed(FOLLOWER)) == ([7], [True], [])


def test_a_base_ends_where_views_retract_records_of_another_topic(log: EmbeddedLog, clock: ManualClock) -> None:
    log.create("t", "id int", retention_age=10 * DAY, views="keep")
    log.create("other", "id int", retention_age=DAY)
    shop = Shop(log, "t", "other")
    fill(log, 4)
    fill(log, 4, "other")
    shop.read()
    clock.advance(DAY * 1.5)
    log.upkeep()
    assert log.followers.trimmed("other", log.position()) == {0: 4}
    assert shop.reach() == [False]
    shop.read()
    assert (shop.taken, shop.reach()) == ([4], [True])
    log.upkeep()
    assert log.offsets("other")[0][0] == 4, "no base holds what views forget"


def test_a_topic_that_is_altered_needs_none_any_more(log: EmbeddedLog) -> None:
    log.create("t", "id int", retention_age=DAY, views="keep")
    fill(log, 4)
    shop = Shop(log, "t")
    generation = Generation(1, "", Definition(), "current", 1, log.position(), None, 0)
    bases = Bases(log, shop.store, 1, "shop", ["t"])
    bases.keep(generation, now=True)
    assert log.followers.find(FOLLOWER) is not None
    log.alter("t", views="forget")
    bases.keep(generation, now=True)
    assert log.followers.find(FOLLOWER) is None


def test_a_log_that_does_not_answer_is_asked_again(log: EmbeddedLog, monkeypatch: pytest.MonkeyPatch) -> None:
    log.create("t", "id int", retention_age=DAY, views="keep")
    fill(log, 4)
    shop = Shop(log, "t")

    def unavailable(*_: object, **__: object) -> None:
        raise LogUnavailable("localhost:9092", "no broker")

    with monkeypatch.context() as patch:
        patch.setattr(log, "offsets", unavailable)
        Bases(log, shop.store, 1, "shop", ["t"]).keep(
            Generation(1, "", Definition(), "current", 1, log.position(), None, 0), now=True
        )
    assert shop.taken == []
    shop.read()
    assert shop.taken == [4]

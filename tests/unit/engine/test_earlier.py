"""Views as they were: at every position that they have been at, for as long as their changes are kept."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from headwater.engine.reading import Reader, Snapshot
from headwater.engine.runs import forget_open_runs
from headwater.engine.view_store import HISTORY_AGE_MAX
from headwater.errors import NotYet, UnknownView, ViewPositionBetween, ViewPositionGone
from headwater.testing.clock import ManualClock
from tests.unit.engine.samples import Driver, at, zset

SOON = timedelta(milliseconds=20)


@pytest.fixture
def driver(tmp_path: Path) -> Iterator[Driver]:
    forget_open_runs()
    driver = Driver(tmp_path, views=("v", "w"), clock=ManualClock(datetime.now(UTC)))
    yield driver
    driver.close()


@pytest.fixture
def reader(tmp_path: Path) -> Iterator[Reader]:
    with Reader(tmp_path) as reader:
        yield reader


def rows(snapshot: Snapshot, view: str = "v") -> Counter[tuple[int, str]]:
    table = snapshot.tables[view]
    return Counter(zip(table["key"].to_pylist(), table["text"].to_pylist(), strict=True))


def test_a_view_is_what_it_was_at_each_position(driver: Driver, reader: Reader) -> None:
    driver.publish({"v": zset((1, 1, "a", 2), (2, 2, "b", 1)), "w": zset((7, 7, "w", 1))})
    driver.publish({"v": zset((1, 1, "a", -1), (3, 3, "c", 1))})
    driver.publish({"w": zset((7, 7, "w", -1))})
    driver.publish({"v": zset((2, 2, "b", -1), (2, 2, "d", 1))}, 9)
    assert rows(reader.read_at(["v"], at(1))) == {(1, "a"): 2, (2, "b"): 1}
    both = reader.read_at(["v", "w"], at(2))
    assert (rows(both), rows(both, "w")) == ({(1, "a"): 1, (2, "b"): 1, (3, "c"): 1}, {(7, "w"): 1})
    assert rows(reader.read_at(["w"], at(3)), "w") == {}
    assert rows(reader.read_at(["v"], at(9))) == rows(reader.read(["v"]))
    assert both.position == at(2)


def test_random_histories(driver: Driver, reader: Reader) -> None:
    chance, held, then = random.Random(7), Counter[int](), []
    for _ in range(60):
        change = Counter({key: chance.randint(-held[key], 2) for key in chance.sample(range(12), 4)})
        held.update(change)
        driver.publish({"v": zset(*((key, key, "x", count) for key, count in change.items() if count))})
        then.append({(key, "x"): count for key, count in held.items() if count})
        if chance.random() < 0.3:
            driver.store.collect()
    for position, right in enumerate(then, start=1):
        assert rows(reader.read_at(["v"], at(position))) == right


def test_between_two_positions_a_view_has_never_been(driver: Driver, reader: Reader) -> None:
    driver.publish({}, 3)
    driver.publish({"v": zset((1, 1, "a", 1))}, 8)
    with pytest.raises(ViewPositionBetween, match="one batch took it from 3 to 8") as caught:
        reader.read_at(["v"], at(5))
    assert caught.value.hint == "Read it at position 3 or 8."


def test_a_position_that_is_to_come_is_waited_for(driver: Driver, reader: Reader) -> None:
    driver.publish({}, 3)
    with pytest.raises(NotYet):
        reader.read_at(["v"], at(4), SOON)


def test_beyond_the_changes_that_are_kept_it_says_how_far_back_they_go(driver: Driver, reader: Reader) -> None:
    assert isinstance(driver.clock, ManualClock)
    driver.publish({"v": zset((1, 1, "a", 1))})
    driver.clock.advance(HISTORY_AGE_MAX + timedelta(minutes=1))
    driver.publish({"v": zset((2, 2, "b", 1))}, 5)
    driver.publish({"v": zset((3, 3, "c", 1))}, 6)
    driver.store.collect()
    assert rows(reader.read_at(["v"], at(5))) == {(1, "a"): 1, (2, "b"): 1}
    with pytest.raises(
        ViewPositionGone, match="cannot be read at position 1: its changes are kept from position 5 on"
    ) as caught:
        reader.read_at(["v"], at(1))
    assert caught.value.hint == "Read it at position 5 or a later one, or as it is now."


def test_before_a_definition_was_switched_to_readers_saw_the_one_before(driver: Driver, reader: Reader) -> None:
    driver.publish({"v": zset((1, 1, "old", 1))})
    driver.publish({"v": zset((2, 2, "old", 1))})
    other = Driver(driver.store.address, "two", ("v",), clock=driver.clock)
    other.publish({"v": zset((1, 1, "new", 1))}, 1, promote=False)
    other.publish({"v": zset((2, 2, "new", 1))}, 3)
    assert rows(reader.read_at(["v"], at(1))) == {(1, "old"): 1}
    assert rows(reader.read_at(["v"], at(2))) == {(1, "old"): 1, (2, "old"): 1}
    assert rows(reader.read_at(["v"], at(3))) == {(1, "new"): 1, (2, "new"): 1}
    with pytest.raises(UnknownView):
        reader.read_at(["w"], at(3))
    other.close()

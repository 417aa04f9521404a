"""A subscription gives the content and then every change, once, in order, also to who comes back."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest

from headwater.engine.relational import store as store_module
from headwater.engine.runs import forget_open_runs
from headwater.engine.subscription import Changes, Subscription, subscribe
from headwater.engine.view_store import RETIRED_KEPT
from headwater.errors import PositionGone, UnknownView, UsageError, ViewPositionGone
from headwater.log.embedded.position import commit_of
from headwater.testing.clock import ManualClock
from tests.unit.engine.samples import Driver, at, definition, zset

Seen = tuple[int, dict[tuple[int, str], int], bool]


@pytest.fixture
def driver(tmp_path: Path) -> Iterator[Driver]:
    forget_open_runs()
    driver = Driver(tmp_path, clock=ManualClock(datetime.now(UTC)))
    yield driver
    driver.close()


def seen(changes: Changes | None) -> Seen:
    assert changes is not None
    rows = zip(changes.rows["key"].to_pylist(), changes.rows["text"].to_pylist(), strict=True)
    weights = dict(zip(rows, changes.weights.to_pylist(), strict=True))
    assert len(weights) == len(changes.weights)
    return commit_of(changes.position), weights, changes.snapshot


def drain(subscription: Subscription) -> list[Seen]:
    found = []
    while (changes := subscription.poll()) is not None:
        found.append(seen(changes))
    return found


def switch(driver: Driver, columns: pa.Schema | None = None, name: str = "two") -> Driver:
    """The same driver with another definition, whose generation is building."""
    given = definition("v") if columns is None else definition("v", columns=columns)
    driver.generation = driver.store.open_generation(name, given).id
    driver.batch = 0
    return driver


def test_the_content_comes_first_and_then_every_change(driver: Driver, tmp_path: Path) -> None:
    driver.publish({"v": zset((1, 1, "a", 2))})
    with subscribe(tmp_path, "v") as subscription:
        assert drain(subscription) == [(1, {(1, "a"): 2}, True)]
        driver.publish({"v": zset((1, 1, "a", -1), (2, 2, "b", 1))})
        driver.publish({})
        driver.publish({"v": zset((3, 3, "c", 1), (3, 3, "c", -1))})
        driver.publish({"v": zset((2, 2, "b", -1))})
        assert drain(subscription) == [(2, {(1, "a"): -1, (2, "b"): 1}, False), (5, {(2, "b"): -1}, False)]
        assert drain(subscription) == []


def test_a_subscription_may_come_before_the_pipeline(tmp_path: Path) -> None:
    with subscribe(tmp_path / "later", "v") as subscription:
        assert subscription.poll() is None
        driver = Driver(tmp_path / "later")
        driver.publish({"v": zset((1, 1, "a", 1))})
        assert drain(subscription) == [(1, {(1, "a"): 1}, True)]
        driver.close()


def test_it_goes_on_from_any_position_that_is_kept(driver: Driver, tmp_path: Path) -> None:
    for step in range(1, 30):
        driver.publish({"v": zset((step, step, "a", 1))}, step * 10)
    for known in range(1, 30):
        with subscribe(tmp_path, "v", at(known * 10)) as subscription:
            assert drain(subscription) == [(step * 10, {(step, "a"): 1}, False) for step in range(known + 1, 30)]


def test_a_position_that_is_not_kept_says_what_to_do(
    driver: Driver, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store_module, "HISTORY_BATCHES_MAX", 3)
    for step in range(1, 11):
        driver.publish({"v": zset((step, step, "a", 1))})
    driver.store.collect()
    with subscribe(tmp_path, "v", at(7)) as subscription:
        assert [position for position, _, _ in drain(subscription)] == [8, 9, 10]
    with subscribe(tmp_path, "v", at(6)) as subscription, pytest.raises(PositionGone) as caught:
        subscription.poll()
    assert (caught.value.position, caught.value.earliest) == ("6", "7")
    assert "without a position" in caught.value.hint


def test_a_view_that_did_not_change_is_followed_from_long_ago(
    driver: Driver, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store_module, "HISTORY_BATCHES_MAX", 3)
    driver.publish({"v": zset((1, 1, "a", 1))})
    for _ in range(10):
        driver.publish({})
    driver.publish({"v": zset((2, 2, "a", 1))})
    driver.store.collect()
    with subscribe(tmp_path, "v", at(1)) as subscription:
        assert drain(subscription) == [(12, {(2, "a"): 1}, False)]


def test_a_position_ahead_of_the_view_is_a_mistake(driver: Driver, tmp_path: Path) -> None:
    driver.publish({}, 5)
    with subscribe(tmp_path, "v", at(6)) as subscription, pytest.raises(UsageError, match="is at position 5"):
        subscription.poll()


def test_an_unknown_view_is_named(driver: Driver, tmp_path: Path) -> None:
    driver.publish({})
    with subscribe(tmp_path, "x") as subscription, pytest.raises(UnknownView):
        subscription.poll()


def test_a_slow_subscriber_misses_nothing_until_it_is_told(
    driver: Driver, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store_module, "HISTORY_BATCHES_MAX", 2)
    driver.publish({"v": zset((1, 1, "a", 1))})
    with subscribe(tmp_path, "v") as subscription:
        subscription.poll()
        for step in range(2, 9):
            driver.publish({"v": zset((step, step, "a", 1))})
        driver.store.collect()
        with pytest.raises(ViewPositionGone):
            subscription.poll()


class TestNewGeneration:
    def test_its_difference_comes_as_one_change(self, driver: Driver, tmp_path: Path) -> None:
        driver.publish({"v": zset((1, 1, "a", 1), (2, 2, "b", 1))})
        with subscribe(tmp_path, "v") as subscription:
            subscription.poll()
            driver.publish({"v": zset((3, 3, "c", 1))})
            switch(driver)
            driver.publish({"v": zset((7, 1, "a", 1))}, 1, promote=False)
            assert drain(subscription) == [(2, {(3, "c"): 1}, False)]
            driver.publish({"v": zset((8, 3, "c", 2))}, 3)
            driver.publish({"v": zset((9, 4, "d", 1))}, 4)
            assert drain(subscription) == [(4, {(2, "b"): -1, (3, "c"): 1, (4, "d"): 1}, False)]
            driver.publish({"v": zset((9, 4, "d", 1))}, 5)
            assert drain(subscription) == [(5, {(4, "d"): 1}, False)]

    def test_who_comes_back_gets_the_rest_and_the_difference(self, driver: Driver, tmp_path: Path) -> None:
        driver.publish({"v": zset((1, 1, "a", 1))})
        driver.publish({"v": zset((2, 2, "b", 1))})
        switch(driver).publish({"v": zset((1, 1, "a", 1))}, 9)
        with subscribe(tmp_path, "v", at(1)) as subscription:
            assert drain(subscription) == [(2, {(2, "b"): 1}, False), (9, {(2, "b"): -1}, False)]

    def test_at_the_same_position_the_generation_tells_them_apart(self, driver: Driver, tmp_path: Path) -> None:
        driver.publish({"v": zset((1, 1, "a", 1))}, 5)
        old = driver.generation
        switch(driver).publish({"v": zset((2, 2, "b", 1))}, 5)
        with subscribe(tmp_path, "v", at(5), generation=old) as subscription:
            assert drain(subscription) == [(5, {(1, "a"): -1, (2, "b"): 1}, False)]
        with subscribe(tmp_path, "v", at(5)) as subscription:
            assert drain(subscription) == []

    def test_other_columns_begin_anew(self, driver: Driver, tmp_path: Path) -> None:
        driver.publish({"v": zset((1, 1, "a", 1))})
        with subscribe(tmp_path, "v") as subscription:
            subscription.poll()
            switch(driver, pa.schema([("key", pa.int64())]))
            driver.publish({"v": zset((1, 1, "a", 1)).drop_columns(["text"])}, 2)
            changes = subscription.poll()
            assert changes is not None
            assert changes.snapshot
            assert changes.rows.to_pylist() == [{"key": 1}]

    def test_a_generation_that_is_gone_says_so(self, driver: Driver, tmp_path: Path) -> None:
        driver.publish({"v": zset((1, 1, "a", 1))}, 5)
        with subscribe(tmp_path, "v") as live:
            live.poll()
            switch(driver).publish({"v": zset((2, 2, "b", 1))}, 8)
            clock = driver.clock
            assert isinstance(clock, ManualClock)
            clock.advance(RETIRED_KEPT + timedelta(minutes=1))
            driver.store.collect()
            with pytest.raises(PositionGone):
                live.poll()
            with subscribe(tmp_path, "v", at(5)) as late, pytest.raises(PositionGone) as caught:
                late.poll()
        assert caught.value.earliest == "8"


def test_it_follows_while_others_publish_and_ends_when_closed(driver: Driver, tmp_path: Path) -> None:
    subscription = subscribe(tmp_path, "v")
    total: Counter[tuple[int, str]] = Counter()
    positions: list[int] = []
    complete = threading.Event()

    def follow() -> None:
        for changes in subscription:
            position, weights, _ = seen(changes)
            positions.append(position)
            total.update(weights)
            if position == 50:
                complete.set()

    following = threading.Thread(target=follow)
    following.start()
    for step in range(1, 51):
        driver.publish({"v": zset((step, step, "a", 1))})
    assert complete.wait(60)
    subscription.close()
    following.join(60)
    assert not following.is_alive()
    assert positions == sorted(set(positions))
    assert positions[1:] == list(range(positions[0] + 1, 51))
    assert sum(total.values()) == 50

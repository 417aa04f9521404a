"""How far time has come: an immutable mapping, and a kernel that acts on nothing else."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pyarrow as pa

from headwater.views.frontier import NO_TIME, Frontier
from tests.property.views.driver import Driver
from tests.unit.views.expiring import Expiring

SCHEMA = pa.schema([("k", pa.string()), ("until", pa.timestamp("us", tz="UTC"))])
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def after(minutes: int) -> datetime:
    return NOON + timedelta(minutes=minutes)


def clock(minutes: int) -> Frontier:
    return Frontier({"clock": after(minutes)})


def test_a_source_has_moved_if_its_time_is_another_one() -> None:
    before = Frontier({"clock": NOON, "orders": NOON})
    now = Frontier({"clock": after(1), "orders": NOON, "clicks": NOON})
    assert now.moved_since(before) == {"clock", "clicks"}
    assert now.moved_since(now) == frozenset()
    assert NO_TIME.moved_since(NO_TIME) == frozenset()


def test_frontiers_are_equal_by_their_times_and_survive_as_json() -> None:
    frontier = Frontier({"clock": after(1), "orders": NOON + timedelta(microseconds=1)})
    assert Frontier.from_json(frontier.to_json()) == frontier
    assert frontier not in (NO_TIME, clock(1))


def test_a_frontier_does_not_change_with_what_it_was_made_of() -> None:
    times = {"clock": NOON}
    frontier = Frontier(times)
    times["clock"] = after(1)
    assert frontier["clock"] == NOON


def test_time_alone_makes_a_kernel_act() -> None:
    driver = Driver(Expiring(SCHEMA, ("k",)), {"rows": ("k",)})
    soon, late = ("a", after(1)), ("b", after(5))
    assert sorted(driver.step({"rows": [(soon, 1), (late, 2)]})) == [(soon, 1), (late, 2)]
    assert driver.step({}, clock(0)) == []
    assert driver.step({}, clock(1)) == [(soon, -1)]
    assert driver.step({}, clock(4)) == []
    assert driver.step({}, clock(9)) == [(late, -2)]
    assert driver.state["rows"].num_rows == 0


def test_time_and_changes_come_in_one_step() -> None:
    driver = Driver(Expiring(SCHEMA, ("k",)), {"rows": ("k",)})
    soon, late, missed = ("a", after(1)), ("b", after(5)), ("a", after(2))
    driver.step({"rows": [(soon, 1), (late, 1)]})
    assert sorted(driver.step({"rows": [(late, 1), (missed, 1)]}, clock(3))) == [(soon, -1), (late, 1)]
    assert driver.step({"rows": [(late, -2)]}, clock(4)) == [(late, -2)]

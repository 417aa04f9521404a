"""The sessions kernel against dividing all rows into sessions again, in every order of arrival."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.errors import InternalError
from headwater.views.sessions import Sessions
from tests.property.views.driver import Change, Driver, expanded
from tests.property.views.sequences import HASHES, check_cuts
from tests.property.views.values import POOLS, Row, identity, normal, values

START = datetime(2026, 1, 1, tzinfo=UTC)
TIMESTAMP = pa.timestamp("us", tz="UTC")
WINDOW = pa.struct([("start", TIMESTAMP), ("end", TIMESTAMP)])
GAPS = (1, 1_000_000, 600_000_000)


def spanned(kernel: Sessions, moment: datetime | None) -> dict[str, Any] | None:
    gap = timedelta(microseconds=kernel.gap)
    return None if moment is None else {"start": moment, "end": moment + gap}


@st.composite
def kernels(draw: st.DrawFn) -> Sessions:
    schema = pa.schema([("k", draw(st.sampled_from(list(POOLS)))), ("w", WINDOW), ("v", pa.int32())])
    return Sessions(schema, ("k",) if draw(st.booleans()) else (), "w", draw(st.sampled_from(GAPS)))


@st.composite
def histories(draw: st.DrawFn, kernel: Sessions) -> list[list[Change]]:
    """Steps of rows that come in any order of time, and go again."""
    # In units of the gap: sessions that touch, that nearly do, that are joined by a third row and divided again.
    units = st.integers(0, 8) | st.sampled_from([0.5, 2.5, 100, 101])
    moments = units.map(lambda unit: START + timedelta(microseconds=int(unit * kernel.gap)))
    beside = st.tuples(moments, st.sampled_from([-1, 0, 0, 1])).map(lambda one: one[0] + timedelta(microseconds=one[1]))
    rows = st.tuples(values(kernel.schema.field("k").type), (st.none() | beside).map(lambda at: spanned(kernel, at)),
                     st.integers(0, 1))  # fmt: skip
    done: list[Change] = []
    steps = []
    for _ in range(draw(st.integers(1, 6))):
        added: list[Change] = draw(st.lists(st.tuples(rows, st.sampled_from([1, 1, 2])), max_size=6))
        there = expanded([*done, *added])
        gone = draw(st.lists(st.sampled_from(range(len(there))), max_size=6, unique=True)) if there else []
        step = draw(st.permutations([*added, *((there[number], -1) for number in gone)]))
        done += step
        steps.append(step)
    return steps


def recomputed(kernel: Sessions, changes: Sequence[Change]) -> Counter[Row]:
    rows = [row for row in expanded(changes) if row[1] is not None]
    result: Counter[Row] = Counter()
    for row in rows:
        mine = [other for other in rows if not kernel.key or identity(normal(other[0])) == identity(normal(row[0]))]
        start, end = row[1]["start"], row[1]["end"]
        while True:
            near = [other[1] for other in mine if other[1]["start"] <= end and other[1]["end"] >= start]
            reached = min(one["start"] for one in near), max(one["end"] for one in near)
            if reached == (start, end):
                break
            start, end = reached
        result[identity((row[0], {"start": start, "end": end}, row[2]))] += 1
    return result


def driver_of(kernel: Sessions, hashes: int) -> Driver:
    return Driver(kernel, {"rows": kernel.key}, hashes)


@given(kernels(), HASHES, st.data())
def test_every_step_equals_recomputing(kernel: Sessions, hashes: int, data: st.DataObject) -> None:
    driver = driver_of(kernel, hashes)
    done: list[Change] = []
    for step in data.draw(histories(kernel)):
        done += step
        driver.step({"rows": step})
        assert driver.result() == recomputed(kernel, done)


@given(kernels(), HASHES, st.data())
def test_cuts_do_not_matter(kernel: Sessions, hashes: int, data: st.DataObject) -> None:
    steps = [{"rows": step} for step in data.draw(histories(kernel))]
    check_cuts(lambda: driver_of(kernel, hashes), steps, data)


@given(st.permutations(range(0, 90, 9)), st.permutations(range(0, 90, 9)))
def test_any_order_of_arrival_gives_the_same_sessions(arrivals: list[int], departures: list[int]) -> None:
    kernel = Sessions(pa.schema([("k", pa.int32()), ("w", WINDOW), ("v", pa.int32())]), ("k",), "w", 600_000_000)
    driver, done = driver_of(kernel, 2**31), list[Change]()
    steps = [*((number, 1) for number in arrivals), *((number, -1) for number in departures)]
    for number, weight in steps:
        change = (1, spanned(kernel, START + timedelta(minutes=number)), 0), weight
        done.append(change)
        driver.step({"rows": [change]})
        assert driver.result() == recomputed(kernel, done)


def minutes(*numbers: int) -> list[Change]:
    kernel = Sessions(pa.schema([("w", WINDOW)]), (), "w", 600_000_000)
    return [((spanned(kernel, START + timedelta(minutes=number)),), 1) for number in numbers]


def test_only_the_sessions_beside_a_change_are_touched() -> None:
    driver = driver_of(Sessions(pa.schema([("w", WINDOW)]), (), "w", 600_000_000), 2**31)
    driver.step({"rows": minutes(*range(0, 3000, 20))})
    assert len(driver.out) == 150
    driver.step({"rows": minutes(1010)})
    assert driver.read["rows"] <= 4
    # Two sessions of one row each become one of three.
    assert len(driver.out) == 2 + 3
    driver.step({"rows": [(row, -weight) for row, weight in minutes(1010)]})
    assert len(driver.out) == 2 + 3


def test_a_row_that_is_not_there_cannot_be_retracted() -> None:
    driver = driver_of(Sessions(pa.schema([("w", WINDOW)]), (), "w", 600_000_000), 2**31)
    with pytest.raises(InternalError, match="does not hold"):
        driver.step({"rows": [(row, -weight) for row, weight in minutes(1)]})

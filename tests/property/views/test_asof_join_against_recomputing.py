"""The as-of join kernel against looking at every version for every row, after every step."""

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
from headwater.views.asof_join import AsOfJoin
from tests.property.views.driver import Change, Changes, Driver, expanded
from tests.property.views.sequences import HASHES, check_cuts, together
from tests.property.views.values import ORDERED, POOLS, Row, identity, normal, place, strict_place, values

START = datetime(2026, 1, 1, tzinfo=UTC)
TIMESTAMP = pa.timestamp("us", tz="UTC")
# Close to each other, so that they share a place in time order, and far away.
MOMENTS = st.sampled_from([0, 1, 300_000, 2_000_000, 2_000_001, 60_000_000, 61_000_000, 10**15, -(10**16)]).map(
    lambda microseconds: START + timedelta(microseconds=microseconds)
)


@st.composite
def kernels(draw: st.DrawFn) -> AsOfJoin:
    moment = draw(st.just(TIMESTAMP) | st.sampled_from(ORDERED))
    key = draw(st.sampled_from(list(POOLS)))
    extra = draw(st.sampled_from(ORDERED))
    keyed = draw(st.booleans())
    return AsOfJoin(
        draw(st.sampled_from(["inner", "left"])),
        pa.schema([("k", key), ("at", moment), ("id", pa.int32())]),
        pa.schema([("rk", key), ("since", moment), ("value", extra)]),
        ("k",) if keyed else (),
        ("rk",) if keyed else (),
        "at",
        "since",
        strict=draw(st.booleans()),
        later=draw(st.booleans()),
        tolerance=draw(st.sampled_from([None, 0, 1_000_000])) if moment == TIMESTAMP else None,
    )


@st.composite
def side_changes(draw: st.DrawFn, kernel: AsOfJoin, side: str) -> list[list[Change]]:
    schema = kernel.ports[side]
    moments = st.none() | MOMENTS if schema.field(1).type == TIMESTAMP else values(schema.field(1).type)
    rows = st.tuples(values(schema.field(0).type), moments, values(schema.field(2).type))
    done: list[Change] = []
    steps = []
    for _ in range(draw(st.integers(1, 5))):
        added: list[Change] = draw(st.lists(st.tuples(rows, st.sampled_from([1, 1, 2])), max_size=6))
        there = expanded([*done, *added])
        gone = draw(st.lists(st.sampled_from(range(len(there))), max_size=6, unique=True)) if there else []
        step = draw(st.permutations([*added, *((there[number], -1) for number in gone)]))
        done += step
        steps.append(step)
    return steps


def both_sides(kernel: AsOfJoin, data: st.DataObject) -> list[Changes]:
    return together({side: data.draw(side_changes(kernel, side)) for side in ("left", "right")})


def recomputed(kernel: AsOfJoin, left: Sequence[Change], right: Sequence[Change]) -> Counter[Row]:
    versions = expanded(right)
    result: Counter[Row] = Counter()
    for row in expanded(left):
        found = [version for version in versions if matches(kernel, row, version)]
        if found:
            moments = [place(version[1]) for version in found]
            wanted = min(moments) if kernel.later else max(moments)
            ties = [version for version, moment in zip(found, moments, strict=True) if moment == wanted]
            best = min(ties, key=lambda version: tuple(strict_place(value) for value in version))
            if within(kernel, row, best):
                result[identity(row + best)] += 1
                continue
        if kernel.kind == "left":
            result[identity((*row, None, None, None))] += 1
    return result


def matches(kernel: AsOfJoin, row: Row, version: Row) -> bool:
    if row[1] is None or version[1] is None:
        return False
    if kernel.left_key and (row[0] is None or identity(normal(row[0])) != identity(normal(version[0]))):
        return False
    mine, other = place(row[1]), place(version[1])
    if mine == other:
        return not kernel.strict
    return bool(other > mine) if kernel.later else bool(other < mine)


def within(kernel: AsOfJoin, row: Row, version: Row) -> bool:
    if kernel.tolerance is None:
        return True
    distance: Any = abs(row[1] - version[1])
    return bool(distance <= timedelta(microseconds=kernel.tolerance))


def driver_of(kernel: AsOfJoin, hashes: int) -> Driver:
    return Driver(kernel, {"left": kernel.left_key, "right": kernel.right_key}, hashes)


@given(kernels(), HASHES, st.data())
def test_every_step_equals_recomputing(kernel: AsOfJoin, hashes: int, data: st.DataObject) -> None:
    driver = driver_of(kernel, hashes)
    done: dict[str, list[Change]] = {"left": [], "right": []}
    for step in both_sides(kernel, data):
        for port, changes in step.items():
            done[port] += changes
        driver.step(step)
        assert driver.result() == recomputed(kernel, done["left"], done["right"])


@given(kernels(), HASHES, st.data())
def test_cuts_do_not_matter(kernel: AsOfJoin, hashes: int, data: st.DataObject) -> None:
    check_cuts(lambda: driver_of(kernel, hashes), both_sides(kernel, data), data)


def test_a_late_version_touches_only_the_rows_up_to_the_next_one() -> None:
    schemas = pa.schema([("k", pa.int64()), ("at", TIMESTAMP)]), pa.schema([("rk", pa.int64()), ("since", TIMESTAMP)])
    driver = driver_of(AsOfJoin("left", *schemas, ("k",), ("rk",), "at", "since"), 2**31)
    minute = timedelta(minutes=1)
    rows = [((1, START + number * minute), 1) for number in range(1000)]
    driver.step({"left": rows, "right": [((1, START + 500 * minute), 1)]})
    assert len(driver.step({"right": [((1, START + 490 * minute), 1)]})) == 2 * 10
    assert driver.read == {"left": 11, "right": 1}
    assert len(driver.step({"left": [((1, START), 1)]})) == 1


@pytest.mark.parametrize("later", [False, True])
def test_versions_that_are_gone_are_passed_over(later: bool) -> None:
    schemas = pa.schema([("k", pa.int64()), ("at", TIMESTAMP)]), pa.schema([("rk", pa.int64()), ("since", TIMESTAMP)])
    driver = driver_of(AsOfJoin("left", *schemas, ("k",), ("rk",), "at", "since", later=later), 2**31)
    minute = timedelta(minutes=-1 if later else 1)
    driver.step({"right": [((1, START + number * minute), 1) for number in range(300)]})
    driver.step({"right": [((1, START + number * minute), -1) for number in range(10, 250)]})
    driver.step({"left": [((1, START + number * minute), 1) for number in (100, 240, 260)]})
    first, last = (START + number * minute for number in (9, 260))
    assert sorted(row[3] == first for row, _ in driver.out) == [False, True, True]
    # It is between the last one before what is gone and the first one after it.
    driver.step({"right": [((1, START + 200 * minute), 1)]})
    assert sorted((weight, row[3] == first, row[3] == last) for row, weight in driver.out) == [
        (-1, True, False), (1, False, False),
    ]  # fmt: skip
    # The left row at 240, and the versions at 9 and 250.
    assert driver.read == {"left": 1, "right": 2}


def test_a_version_that_is_not_there_cannot_be_retracted() -> None:
    schemas = pa.schema([("k", pa.int64()), ("at", TIMESTAMP)]), pa.schema([("rk", pa.int64()), ("since", TIMESTAMP)])
    driver = driver_of(AsOfJoin("left", *schemas, ("k",), ("rk",), "at", "since"), 2**31)
    with pytest.raises(InternalError, match="does not hold"):
        driver.step({"right": [((1, START), -1)]})

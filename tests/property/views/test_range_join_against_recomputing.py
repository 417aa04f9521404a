"""The range join kernel against nested loops over everything that is there, after every step."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from headwater.views.range_join import RangeJoin
from tests.property.views.driver import Change, Changes, Driver, expanded
from tests.property.views.sequences import HASHES, check_cuts, together
from tests.property.views.values import POOLS, Row, identity, normal, values

START = datetime(2026, 1, 1, tzinfo=UTC)
TIMESTAMP = pa.timestamp("us", tz="UTC")
MOMENTS = st.sampled_from([0, 1, 2, 300_000, 2_000_000, 2_000_001, 60_000_000, 61_000_000, 10**15]).map(
    lambda microseconds: START + timedelta(microseconds=microseconds)
) | st.sampled_from([datetime(1, 1, 1, tzinfo=UTC), datetime(9999, 12, 31, tzinfo=UTC)])
DISTANCES = st.sampled_from([None, 0, 1, -1, 2_000_000, -2_000_000, 60_000_000, 2**63 - 1, -(2**63)])


@st.composite
def kernels(draw: st.DrawFn) -> RangeJoin:
    key, keyed = draw(st.sampled_from(list(POOLS))), draw(st.booleans())
    return RangeJoin(
        pa.schema([("k", key), ("at", TIMESTAMP), ("id", pa.int32())]),
        pa.schema([("seen", TIMESTAMP), ("rk", key)]),
        ("k",) if keyed else (),
        ("rk",) if keyed else (),
        "at",
        "seen",
        draw(DISTANCES),
        draw(DISTANCES),
    )


@st.composite
def side_changes(draw: st.DrawFn, kernel: RangeJoin, side: str) -> list[list[Change]]:
    kinds = kernel.ports[side].types
    rows = st.tuples(*(st.none() | MOMENTS if kind == TIMESTAMP else values(kind) for kind in kinds))
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


def both_sides(kernel: RangeJoin, data: st.DataObject) -> list[Changes]:
    return together({side: data.draw(side_changes(kernel, side)) for side in ("left", "right")})


def recomputed(kernel: RangeJoin, left: Sequence[Change], right: Sequence[Change]) -> Counter[Row]:
    rights = expanded(right)
    return Counter(identity(row + other) for row in expanded(left) for other in rights if matches(kernel, row, other))


def matches(kernel: RangeJoin, row: Row, other: Row) -> bool:
    if kernel.left_key and (row[0] is None or identity(normal(row[0])) != identity(normal(other[1]))):
        return False
    if row[1] is None or other[0] is None:
        return False
    distance = (other[0] - row[1]) // timedelta(microseconds=1)
    return (kernel.least is None or kernel.least <= distance) and (kernel.most is None or distance <= kernel.most)


def driver_of(kernel: RangeJoin, hashes: int) -> Driver:
    return Driver(kernel, {"left": kernel.left_key, "right": kernel.right_key}, hashes)


@given(kernels(), HASHES, st.data())
def test_every_step_equals_recomputing(kernel: RangeJoin, hashes: int, data: st.DataObject) -> None:
    driver = driver_of(kernel, hashes)
    done: dict[str, list[Change]] = {"left": [], "right": []}
    for step in both_sides(kernel, data):
        for port, changes in step.items():
            done[port] += changes
        driver.step(step)
        assert driver.result() == recomputed(kernel, done["left"], done["right"])


@given(kernels(), HASHES, st.data())
def test_cuts_do_not_matter(kernel: RangeJoin, hashes: int, data: st.DataObject) -> None:
    check_cuts(lambda: driver_of(kernel, hashes), both_sides(kernel, data), data)

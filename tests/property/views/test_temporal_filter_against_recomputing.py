"""The temporal filter kernel against asking of every row, at every moment, whether it is there."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from headwater.views.due_order import microseconds
from headwater.views.frontier import NO_TIME, Frontier
from headwater.views.temporal_filter import DUE, Bound, TemporalFilter
from tests.property.views.driver import Change, Driver
from tests.property.views.values import Row, identity

START = datetime(2026, 1, 1, tzinfo=UTC)
SCHEMA = pa.schema([("id", pa.int64()), ("a", pa.timestamp("us", tz="UTC")), ("b", pa.timestamp("us", tz="UTC"))])
MINUTE = 60_000_000
MOMENTS = st.integers(0, 12).map(lambda minutes: START + timedelta(minutes=minutes))
FAR = st.sampled_from([datetime(1, 1, 1, tzinfo=UTC), datetime(9999, 12, 31, tzinfo=UTC)])
ROWS = st.tuples(st.integers(0, 3), st.none() | MOMENTS | FAR, st.none() | MOMENTS | FAR)
BOUNDS = st.builds(Bound, st.sampled_from(["a", "b"]), st.sampled_from([0, 1, -1, MINUTE, -3 * MINUTE]))


@st.composite
def kernels(draw: st.DrawFn) -> TemporalFilter:
    begins, ends = draw(st.lists(BOUNDS, max_size=2)), draw(st.lists(BOUNDS, max_size=2))
    if not begins and not ends:
        begins = [Bound("a")]
    return TemporalFilter(SCHEMA, tuple(SCHEMA.names), "clock", tuple(begins), tuple(ends))


@st.composite
def histories(draw: st.DrawFn) -> list[tuple[list[Change], Frontier]]:
    """Steps of changes, some of them retractions of rows that are there, with a clock that may stand still."""
    steps, there, now = list[tuple[list[Change], Frontier]](), list[Row](), draw(st.none() | MOMENTS)
    for _ in range(draw(st.integers(1, 7))):
        added = draw(st.lists(ROWS, max_size=5))
        gone = draw(st.lists(st.sampled_from(range(len(there))), max_size=4, unique=True)) if there else []
        changes = [*((row, 1) for row in added), *((there[place], -1) for place in gone)]
        there = [*(row for place, row in enumerate(there) if place not in gone), *added]
        now = now if now is None else now + timedelta(microseconds=draw(st.sampled_from([0, 1, MINUTE, 4 * MINUTE])))
        now = draw(st.none() | MOMENTS) if now is None else now
        steps.append((draw(st.permutations(changes)), NO_TIME if now is None else Frontier({"clock": now})))
    return steps


def is_there(kernel: TemporalFilter, row: Row, frontier: Frontier) -> bool:
    if "clock" not in frontier:
        return False
    now, values = microseconds(frontier["clock"]), dict(zip(SCHEMA.names, row, strict=True))
    moments = [
        (None if values[bound.column] is None else microseconds(values[bound.column]) + bound.later, begins)
        for bounds, begins in ((kernel.begins, True), (kernel.ends, False))
        for bound in bounds
    ]
    return all(moment is not None and (moment <= now if begins else now < moment) for moment, begins in moments)


def recomputed(kernel: TemporalFilter, steps: Sequence[tuple[list[Change], Frontier]]) -> Counter[Row]:
    rows: Counter[Row] = Counter()
    for changes, _ in steps:
        for row, weight in changes:
            rows[row] += weight
    return Counter({identity(row): n for row, n in rows.items() if n and is_there(kernel, row, steps[-1][1])})


@given(kernels(), histories())
def test_rows_are_there_when_they_should_be(kernel: TemporalFilter, steps: list[tuple[list[Change], Frontier]]) -> None:
    driver = Driver(kernel, {"rows": kernel.key})
    for count, (changes, frontier) in enumerate(steps, start=1):
        driver.step({"rows": changes}, frontier)
        assert driver.result() == recomputed(kernel, steps[:count])


@given(kernels(), histories())
def test_only_what_is_to_come_is_kept(kernel: TemporalFilter, steps: list[tuple[list[Change], Frontier]]) -> None:
    driver = Driver(kernel, {"rows": kernel.key})
    for changes, frontier in steps:
        driver.step({"rows": changes}, frontier)
        due = driver.state["pending"][DUE].to_pylist()
        assert "clock" not in frontier or all(moment > microseconds(frontier["clock"]) for moment in due)
    driver.step({}, Frontier({"clock": datetime(9999, 12, 31, 23, 59, tzinfo=UTC)}))
    assert driver.state["pending"].num_rows == 0


@given(kernels(), histories())
def test_a_stop_changes_nothing(kernel: TemporalFilter, steps: list[tuple[list[Change], Frontier]]) -> None:
    plain, stopped = Driver(kernel, {"rows": kernel.key}), Driver(kernel, {"rows": kernel.key})
    for changes, frontier in steps:
        plain.step({"rows": changes}, frontier)
    stopped.step({"rows": [change for changes, _ in steps for change in changes]}, steps[-1][1])
    assert plain.result() == stopped.result()
    assert plain.held() == stopped.held()


def test_unused_columns_are_left_out() -> None:
    kernel = TemporalFilter(SCHEMA, tuple(SCHEMA.names), "clock", (Bound("b"),), ())
    narrowed = kernel.narrowed({0})
    assert narrowed.output == [0, 2]
    assert narrowed.kernel.output.names == ["id", "b"]

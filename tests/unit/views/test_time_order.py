"""Hashes in time order: they never decrease as time passes, and stay with the task that owns the key."""

from __future__ import annotations

from datetime import UTC, date, datetime
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.views.ordering import ranks
from headwater.views.placing import tasks_of
from headwater.views.time_order import first_of_key, joined, last_of_key, mirrored, places_of, time_hashes

HASHES = st.integers(-(2**63), 2**63 - 1)
ORDERED: dict[pa.DataType, st.SearchStrategy[object]] = {
    pa.timestamp("us", "UTC"): st.datetimes(timezones=st.just(UTC)),
    pa.timestamp("us"): st.datetimes(),
    pa.date32(): st.dates(),
    pa.int8(): st.integers(-128, 127),
    pa.int64(): st.integers(-(2**63), 2**63 - 1) | st.integers(-5, 5),
    pa.float64(): st.floats() | st.sampled_from([0.0, -0.0]),
    pa.float32(): st.floats(width=32),
    pa.string(): st.text(max_size=3),
    pa.bool_(): st.booleans(),
}


@given(st.data())
@pytest.mark.parametrize("kind", ORDERED, ids=str)
def test_places_never_decrease(kind: pa.DataType, data: st.DataObject) -> None:
    column = pa.chunked_array([pa.array(data.draw(st.lists(ORDERED[kind], min_size=1, max_size=20)), kind)])
    places, numbers = places_of(column), ranks(column)
    order = np.argsort(numbers, kind="stable")
    assert (np.diff(places[order]) >= 0).all()
    assert (np.diff(mirrored(places)[order]) <= 0).all()
    equal = np.diff(numbers[order]) == 0
    assert (np.diff(places[order])[equal] == 0).all()
    assert ((places >= 0) & (places < 2**32)).all()


def test_seconds_and_days_have_places_of_their_own() -> None:
    seconds = [datetime(2026, 1, 1, 0, 0, second, tzinfo=UTC) for second in (0, 2, 4)]
    assert len(set(places_of(pa.chunked_array([pa.array(seconds, pa.timestamp("us", "UTC"))])).tolist())) == 3
    days = [date(2026, 1, 1), date(2026, 1, 2)]
    assert len(set(places_of(pa.chunked_array([pa.array(days, pa.date32())])).tolist())) == 2
    assert len(set(places_of(pa.chunked_array([pa.array([1, 2, 3, 1000], pa.int64())])).tolist())) == 4


@given(HASHES, st.integers(0, 2**32 - 1), st.integers(1, 300))
def test_a_row_stays_with_the_task_of_its_key(given_hash: int, place: int, tasks: int) -> None:
    hashes = np.array([given_hash], dtype=np.int64)
    timed = time_hashes(hashes, np.array([place], dtype=np.int64))
    assert tasks_of(hashes, tasks) == tasks_of(timed, tasks)
    assert first_of_key(hashes) == first_of_key(timed) <= timed <= last_of_key(timed) == last_of_key(hashes)


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 30)), max_size=8))
def test_joined_stretches_cover_the_same_and_do_not_overlap(stretches: list[tuple[int, int]]) -> None:
    firsts, lasts = (np.array([one[side] for one in stretches], dtype=np.int64) for side in (0, 1))
    made = list(zip(*joined(firsts, lasts), strict=True))
    wanted = {place for first, last in stretches for place in range(first, last + 1)}
    assert {place for first, last in made for place in range(first, last + 1)} == wanted
    assert all(last < first for (_, last), (first, _) in pairwise(made))

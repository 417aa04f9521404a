"""State in time order, as it is looked up, against looking at every row."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.engine.opening import open_blobs
from headwater.engine.runs import Run, RunWriter, forget_open_runs
from headwater.engine.time_ordered import TimeOrdered
from headwater.views.kernel import Part
from headwater.views.time_order import first_of_key, last_of_key
from headwater.views.zset import HASH, WEIGHT

PART = Part(pa.schema([("id", pa.int64())]), in_time=True)
SCHEMA = pa.schema([(HASH, pa.int64()), ("id", pa.int64()), (WEIGHT, pa.int64())])
KEYS = st.sampled_from([-(2**63), 0, 2**32, 5 * 2**32])
HASHES = st.tuples(KEYS, st.integers(0, 12) | st.just(2**32 - 1)).map(sum)
ROWS = st.lists(st.tuples(HASHES, st.integers(0, 2), st.sampled_from([1, -1])), min_size=1, max_size=12)


def held(directory: Path, parts: list[list[tuple[int, int, int]]]) -> TimeOrdered:
    forget_open_runs()
    runs: list[Run] = []
    blobs = open_blobs(str(directory))
    for number, rows in enumerate(parts):
        writer = RunWriter(blobs, name=f"r{number}")
        columns = [pa.array(column, pa.int64()) for column in zip(*rows, strict=True)]
        writer.add("a", pa.table(columns, schema=SCHEMA))
        runs += writer.close()
    return TimeOrdered(blobs, {"rows": PART}, {"rows": SCHEMA}, {"rows": runs})


@given(st.lists(ROWS, max_size=4), st.lists(st.tuples(HASHES, HASHES), min_size=1, max_size=5))
def test_stretches_have_their_rows(
    tmp_path_factory: pytest.TempPathFactory, parts: list[list[tuple[int, int, int]]], stretches: list[tuple[int, int]]
) -> None:
    state = held(tmp_path_factory.mktemp("runs"), parts)
    firsts, lasts = (np.array([one[side] for one in stretches], dtype=np.int64) for side in (0, 1))
    total: dict[tuple[int, int], int] = {}
    for place, number, weight in (row for rows in parts for row in rows):
        if any(first <= place <= last for first, last in stretches):
            total[place, number] = total.get((place, number), 0) + weight
    found = state.between("rows", firsts, lasts).to_pylist()
    assert {(row[HASH], row["id"]): row[WEIGHT] for row in found} == {row: w for row, w in total.items() if w}


@given(st.lists(ROWS, max_size=4), st.lists(HASHES, min_size=1, max_size=5), st.integers(1, 40))
def test_neighbors_are_reached_without_leaving_the_key(
    tmp_path_factory: pytest.TempPathFactory, parts: list[list[tuple[int, int, int]]], places: list[int], count: int
) -> None:
    state = held(tmp_path_factory.mktemp("runs"), parts)
    hashes = np.array(places, dtype=np.int64)
    back, ahead = state.back("rows", hashes, count), state.ahead("rows", hashes, count)
    for one, first, last, before, after in zip(
        places, first_of_key(hashes), last_of_key(hashes), back, ahead, strict=True
    ):
        assert first <= before <= one <= after <= last
        # As many rows of some run, or all of them.
        assert before == first or any(sum(before <= row[0] < one for row in run) >= count for run in parts)
        assert after == last or any(sum(one < row[0] <= after for row in run) >= count for run in parts)


@given(st.lists(ROWS, max_size=4), st.lists(HASHES, min_size=1, max_size=5))
def test_a_high_count_reaches_the_ends_of_the_key(
    tmp_path_factory: pytest.TempPathFactory, parts: list[list[tuple[int, int, int]]], places: list[int]
) -> None:
    state = held(tmp_path_factory.mktemp("runs"), parts)
    hashes = np.array(places, dtype=np.int64)
    assert (state.back("rows", hashes, 1000) == first_of_key(hashes)).all()
    assert (state.ahead("rows", hashes, 1000) == last_of_key(hashes)).all()

"""The net change per key, and the check of the key, against a dictionary that changes row by row."""

from __future__ import annotations

import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from headwater.engine.sinks.keyed import net_of
from headwater.engine.sinks.port import Mark
from headwater.engine.sinks.promise import KeyCounts, content_at
from headwater.views.zset import WEIGHT, consolidate
from tests.unit.engine.samples import Driver, Unsynced, at, zset

KEYS = st.one_of(st.none(), st.integers(0, 4))
VALUES = st.sampled_from(["a", "b", None])
STEPS = st.lists(st.tuples(KEYS, st.sampled_from(["k", "l"]), VALUES, st.booleans()), max_size=30)


@given(STEPS)
def test_the_net_change_of_a_table_with_one_row_per_key(steps: list[tuple[Any, str, Any, bool]]) -> None:
    held: dict[tuple[Any, str], Any] = {}
    before: dict[tuple[Any, str], Any] = {}
    changes: list[tuple[Any, str, Any, int]] = []
    for number, (first, second, value, stays) in enumerate(steps):
        if number == len(steps) // 2:
            before = dict(held)
            changes = []
        key = (first, second)
        if key in held:
            changes.append((*key, held.pop(key), -1))
        if stays:
            held[key] = value
            changes.append((*key, value, 1))
    schema = pa.schema([("i", pa.int64()), ("s", pa.string()), ("v", pa.string()), (WEIGHT, pa.int64())])
    rows = [dict(zip(schema.names, change, strict=True)) for change in changes]
    net = net_of(consolidate(pa.Table.from_pylist(rows, schema)), ["i", "s"])
    after = {key: value for key, value in before.items() if key[0] is not None}
    for row in net.deletes.to_pylist():
        del after[row["i"], row["s"]]
    for row in net.upserts.to_pylist():
        after[row["i"], row["s"]] = row["v"]
    assert after == {key: value for key, value in held.items() if key[0] is not None}
    assert not net.repeated.num_rows
    assert {row["s"] for row in net.keyless.to_pylist()} <= {"k", "l"}


def test_keys_are_equal_as_in_group_by() -> None:
    table = pa.table({"k": [0.0, -0.0, float("nan")], "v": [1, 2, 3], WEIGHT: pa.array([-1, 1, 1], pa.int64())})
    net = net_of(table, ["k"])
    assert [row["v"] for row in net.upserts.to_pylist()] == [2, 3]
    assert net.deletes.num_rows == 0


def test_keys_that_are_added_twice_are_repeated() -> None:
    table = pa.table({"k": [1, 2, 3, 3], "v": [1, 2, 3, 4], WEIGHT: pa.array([1, 2, 1, 1], pa.int64())})
    assert sorted(net_of(table, ["k"]).repeated["k"].to_pylist()) == [2, 3]


@given(st.lists(st.lists(st.tuples(st.integers(-5, 5), st.integers(-2, 2)), max_size=20), max_size=10))
def test_key_counts_are_those_of_a_counter(batches: list[list[tuple[int, int]]]) -> None:
    counts, model = KeyCounts(), Counter[int]()
    for batch in batches:
        hashes, weights = (np.array([pair[part] for pair in batch], np.int64) for part in (0, 1))
        counts.add(hashes, weights)
        for each, weight in batch:
            model[each] += weight
        asked = np.arange(-6, 7)
        assert counts.of(asked).tolist() == [model[int(each)] for each in asked]


def test_a_view_as_it_was_is_what_it_is_without_what_came_since() -> None:
    with tempfile.TemporaryDirectory() as directory:
        driver = Driver(directory, storage=Unsynced())
        model: list[list[tuple[int, str]]] = [[]]
        for number in range(1, 12):
            rows = [(number, number, f"{number}", 1)]
            rows += [(number - 2, number - 2, f"{number - 2}", -1)] if number > 2 else []
            driver.publish({"v": zset(*rows)})
            model.append([(each, f"{each}") for each in range(max(1, number - 1), number + 1)])
        for number in range(1, 12):
            found = content_at(Path(directory), "v", Mark(at(number), driver.generation)).to_pylist()
            assert sorted((row["key"], row["text"]) for row in found) == model[number]
        driver.close()

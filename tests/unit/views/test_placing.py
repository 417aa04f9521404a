"""Hashes of keys: equal for keys that SQL takes for equal, and spread over the tasks."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from headwater.engine.batch import Batch
from headwater.views.placing import hashes_of_keys, repeats, tasks_of

NAN = float("nan")
STRUCT = pa.struct([("x", pa.int64()), ("y", pa.list_(pa.float64()))])


def hashes(values: list[Any], kind: pa.DataType) -> list[int]:
    found: list[int] = hashes_of_keys(pa.table({"k": pa.array(values, kind)}), ["k"]).tolist()
    return found


@pytest.mark.parametrize(
    ("kind", "equal", "others"),
    [
        (pa.float64(), [0.0, -0.0], [NAN, 1.0, None]),
        (pa.float32(), [NAN, NAN], [0.0, None]),
        (pa.string(), ["a", "a"], ["a ", "", None]),
        (pa.decimal128(12, 2), [Decimal("1.50"), Decimal("1.50")], [Decimal("15.00"), None]),
        (pa.duration("us"), [timedelta(1), timedelta(1)], [timedelta(2), None]),
        (pa.list_(pa.float64()), [[0.0, NAN], [-0.0, NAN]], [[NAN, 0.0], [0.0], [], None, [None]]),
        (STRUCT, [{"x": 1, "y": [0.0]}, {"x": 1, "y": [-0.0]}], [{"x": 1, "y": []}, {"x": None, "y": None}, None]),
        (pa.map_(pa.string(), pa.int64()), [[("a", 1)], [("a", 1)]], [[("a", 2)], [("b", 1)], [], None]),
        (pa.null(), [None, None], []),
    ],
)
def test_keys_have_one_hash_exactly_if_they_are_equal(kind: pa.DataType, equal: list[Any], others: list[Any]) -> None:
    found = hashes([*equal, *others], kind)
    assert found[0] == found[1]
    assert len(set(found)) == 1 + len(others)


def test_a_hash_does_not_depend_on_how_a_column_is_cut() -> None:
    values = [["a", None], [], None, ["b"], ["a", None]]
    whole = pa.table({"k": pa.array(values, pa.list_(pa.string()))})
    cut = pa.concat_tables([whole.slice(0, 2), whole.slice(2, 1), whole.slice(3)])
    assert hashes_of_keys(cut, ["k"]).tolist() == hashes_of_keys(whole, ["k"]).tolist()


def test_rows_without_a_key_are_in_one_place() -> None:
    assert hashes_of_keys(pa.table({"k": [1, 2]}), []).tolist() == [0, 0]


@pytest.mark.parametrize("tasks", [1, 2, 3, 7])
def test_a_task_is_given_the_hashes_of_its_range(tasks: int) -> None:
    batch = Batch(1, ("", ""), "0", "1", False, tasks, "", {})
    edges = [bound for task in range(tasks) for bound in batch.hash_range(task)]
    dice = np.random.default_rng(1)
    found = np.concatenate([edges, dice.integers(-(2**63), 2**63 - 1, 1000)]).astype(np.int64)
    for one, task in zip(found.tolist(), tasks_of(found, tasks).tolist(), strict=True):
        low, high = batch.hash_range(task)
        assert low <= one <= high


@pytest.mark.parametrize(
    ("keys", "rows", "expected"),
    [(1, 1, False), (1, 10, True), (10, 1000, True), (200_000, 1_000_000, True), (3_000_000, 1_000_000, False),
     (10**9, 100, False)],
)  # fmt: skip
def test_it_is_found_out_whether_keys_repeat(keys: int, rows: int, expected: bool) -> None:
    numbers = np.random.default_rng(1).integers(0, keys, rows)
    assert repeats(hashes_of_keys(pa.table({"k": numbers}), ["k"])) == expected


def test_nothing_does_not_repeat() -> None:
    assert not repeats(np.zeros(0, dtype=np.int64))

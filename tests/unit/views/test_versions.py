"""The versions kernel: when each version of a row began and ended."""

from __future__ import annotations

import pickle

import pyarrow as pa
import pytest

from headwater.errors import InternalError
from headwater.views.versions import Versions
from tests.property.views.driver import Driver
from tests.property.views.values import Row
from tests.unit.views.records import record

SCHEMA = pa.schema([("id", pa.float64()), ("name", pa.string()), ("at", pa.int64())])
KERNEL = Versions(SCHEMA, ("id",), "at")


@pytest.fixture
def table() -> Driver:
    return Driver(pickle.loads(pickle.dumps(KERNEL)), {"records": ("id",)}, 1)


def put(table: Driver, *records: object) -> list[tuple[Row, int]]:
    return sorted(table.step({"records": records}), key=repr)  # type: ignore[dict-item]


def test_a_newer_record_ends_the_version_before(table: Driver) -> None:
    assert put(table, record(1.0, "a", 10, 1)) == [((1.0, "a", 10, None), 1)]
    assert put(table, record(1.0, "b", 20, 2)) == [
        ((1.0, "a", 10, 20), 1),
        ((1.0, "a", 10, None), -1),
        ((1.0, "b", 20, None), 1),
    ]


def test_versions_that_begin_and_end_in_one_batch_are_there(table: Driver) -> None:
    found = put(table, record(1.0, "c", 30, 3), record(1.0, "a", 10, 1), record(1.0, "b", 20, 2))
    assert [row for row, _ in found] == [(1.0, "a", 10, 20), (1.0, "b", 20, 30), (1.0, "c", 30, None)]


def test_a_tombstone_ends_a_version_and_begins_none(table: Driver) -> None:
    put(table, record(1.0, "a", 10, 1))
    assert put(table, record(1.0, None, 20, 2, deleted=True)) == [((1.0, "a", 10, 20), 1), ((1.0, "a", 10, None), -1)]
    assert put(table, record(1.0, None, 30, 3, deleted=True)) == []
    assert put(table, record(1.0, "b", 40, 4)) == [((1.0, "b", 40, None), 1)]


def test_the_order_is_that_of_commits_then_offsets_whatever_the_clock_says(table: Driver) -> None:
    found = put(table, record(1.0, "b", 5, 1, offset=1), record(1.0, "a", 9, 1))
    assert [row for row, _ in found] == [(1.0, "a", 9, 5), (1.0, "b", 5, None)]


def test_only_the_version_that_has_not_ended_is_kept(table: Driver) -> None:
    for commit in range(1, 6):
        put(table, record(1.0, "a", commit * 10, commit), record(2.0, "b", commit * 10, commit))
    put(table, record(2.0, None, 60, 6, deleted=True))
    held = table.state["current"].drop_columns(["_hash"]).to_pylist()
    assert held == [{"id": 1.0, "name": "a", "at": 50, "_w": 1}]


def test_it_does_without_columns_that_nobody_uses() -> None:
    narrowed = KERNEL.narrowed({3})
    assert narrowed.kernel == Versions(pa.schema([SCHEMA.field(0), SCHEMA.field(2)]), ("id",), "at")
    assert (narrowed.output, narrowed.ports) == ([0, 2, 3], {"records": [0, 2, 3, 4, 5]})


def test_a_key_that_is_held_twice_is_a_bug(table: Driver) -> None:
    put(table, record(1.0, "a", 10, 1))
    table.state["current"] = table.state["current"].set_column(4, "_w", pa.array([2], pa.int64()))
    with pytest.raises(InternalError, match="versions"):
        put(table, record(1.0, "b", 20, 2))

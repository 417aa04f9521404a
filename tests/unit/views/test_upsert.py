"""The upsert kernel: what records of a topic do to its table."""

from __future__ import annotations

import pickle

import pyarrow as pa
import pytest

from headwater.errors import InternalError
from headwater.views.upsert import Upsert
from tests.property.views.driver import Driver

SCHEMA = pa.schema([("id", pa.float64()), ("name", pa.string())])
KERNEL = Upsert(SCHEMA, ("id",))


@pytest.fixture
def table() -> Driver:
    return Driver(pickle.loads(pickle.dumps(KERNEL)), {"records": ("id",)}, 1)


def record(id_: float | None, name: str | None, commit: int, offset: int = 0, *, deleted: bool = False) -> object:
    return ((id_, name, commit, offset, deleted), 1)


def put(table: Driver, *records: object) -> list[tuple[tuple[object, ...], int]]:
    return sorted(table.step({"records": records}), key=repr)  # type: ignore[dict-item]


def test_a_newer_record_retracts_the_older_row(table: Driver) -> None:
    assert put(table, record(1.0, "a", 1)) == [((1.0, "a"), 1)]
    assert put(table, record(1.0, "b", 2)) == [((1.0, "a"), -1), ((1.0, "b"), 1)]


def test_the_order_is_that_of_commits_then_offsets(table: Driver) -> None:
    late, last = record(1.0, "late", 2, 0), record(1.0, "last", 2, 1)
    assert put(table, last, record(1.0, "early", 1, 9), late) == [((1.0, "last"), 1)]


def test_a_tombstone_deletes_and_may_say_nothing_else(table: Driver) -> None:
    put(table, record(1.0, "a", 1), record(2.0, "b", 1))
    assert put(table, record(1.0, None, 2, deleted=True)) == [((1.0, "a"), -1)]
    assert put(table, record(1.0, None, 3, deleted=True)) == []
    assert put(table, record(1.0, "c", 4)) == [((1.0, "c"), 1)]


def test_a_record_that_changes_nothing_says_nothing(table: Driver) -> None:
    put(table, record(1.0, "a", 1))
    assert put(table, record(1.0, "a", 2)) == []


def test_a_row_that_comes_and_goes_in_one_batch_is_never_seen(table: Driver) -> None:
    assert put(table, record(1.0, "a", 1), record(1.0, None, 2, deleted=True)) == []


def test_zeros_are_one_key(table: Driver) -> None:
    put(table, record(0.0, "a", 1))
    assert put(table, record(-0.0, "b", 2)) == [((-0.0, "b"), 1), ((0.0, "a"), -1)]


def test_rows_of_keys_that_collide_stay(table: Driver) -> None:
    put(table, record(1.0, "a", 1), record(2.0, "b", 1), record(None, "c", 1))
    assert put(table, record(2.0, "d", 2)) == [((2.0, "b"), -1), ((2.0, "d"), 1)]
    assert put(table, record(None, "e", 3)) == [((None, "c"), -1), ((None, "e"), 1)]


def test_a_key_that_is_held_twice_is_a_bug(table: Driver) -> None:
    put(table, record(1.0, "a", 1))
    table.state["rows"] = table.state["rows"].set_column(3, "_w", pa.array([2], pa.int64()))
    with pytest.raises(InternalError, match="upsert"):
        put(table, record(1.0, "b", 2))

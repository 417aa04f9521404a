"""The operations kernel: what the records of a table's topic do."""

from __future__ import annotations

import pickle

import pyarrow as pa
import pytest

from headwater.errors import InternalError
from headwater.views.operations import Operations
from tests.property.views.driver import Driver
from tests.unit.views.records import record

SCHEMA = pa.schema([("id", pa.float64()), ("name", pa.string())])
KERNEL = Operations(SCHEMA, ("id",))


@pytest.fixture
def changes() -> Driver:
    return Driver(pickle.loads(pickle.dumps(KERNEL)), {"records": ("id",)}, 1)


def operations(changes: Driver, *records: object) -> list[object]:
    return [row[-1] for row, _ in changes.step({"records": records})]  # type: ignore[dict-item]


def test_the_first_record_of_a_key_inserts_and_later_ones_update(changes: Driver) -> None:
    assert operations(changes, record(1.0, "b", 2), record(1.0, "a", 1)) == ["insert", "update"]
    assert operations(changes, record(1.0, "c", 3)) == ["update"]


def test_after_a_tombstone_a_key_is_inserted_again(changes: Driver) -> None:
    assert operations(changes, record(1.0, "a", 1), record(1.0, None, 2, deleted=True)) == ["insert", "delete"]
    assert operations(changes, record(1.0, "a", 3)) == ["insert"]
    assert operations(changes, record(1.0, None, 4, deleted=True), record(1.0, "b", 5)) == ["delete", "insert"]


def test_a_tombstone_of_a_key_without_a_row_is_a_record_all_the_same(changes: Driver) -> None:
    assert operations(changes, record(1.0, None, 1, deleted=True)) == ["delete"]
    assert operations(changes, record(1.0, "a", 2)) == ["insert"]


def test_only_keys_that_have_a_row_are_kept(changes: Driver) -> None:
    operations(changes, record(1.0, "a", 1), record(2.0, "b", 1))
    operations(changes, record(1.0, None, 2, deleted=True))
    assert changes.state["keys"].drop_columns(["_hash"]).to_pylist() == [{"id": 2.0, "_w": 1}]


def test_it_does_without_columns_that_nobody_uses() -> None:
    narrowed = KERNEL.narrowed({2})
    assert narrowed.kernel == Operations(pa.schema([("id", pa.float64())]), ("id",))
    assert (narrowed.output, narrowed.ports) == ([0, 2], {"records": [0, 2, 3, 4]})


def test_a_key_that_is_held_twice_is_a_bug(changes: Driver) -> None:
    operations(changes, record(1.0, "a", 1))
    changes.state["keys"] = changes.state["keys"].set_column(2, "_w", pa.array([2], pa.int64()))
    with pytest.raises(InternalError, match="operations"):
        operations(changes, record(1.0, "b", 2))

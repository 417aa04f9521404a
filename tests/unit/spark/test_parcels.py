"""Rows of edges become parcels and come out of them unchanged, each in the task that owns its key."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from headwater.spark.parcels import PARCEL_BYTES, Mail, Route, note, unpacked
from headwater.spark.slots import NOTES, PACKED, PARCELS, ROUTE, TASK, Slots
from headwater.views.aggregate import Aggregate, Function
from headwater.views.placing import tasks_of
from headwater.views.zset import HASH, WEIGHT, empty

COLUMNS = pa.schema([("k", pa.string()), ("v", pa.int64())])
PLAIN = Route(3, COLUMNS, empty(COLUMNS, hashed=True).schema, ("k",), None, places=(1, 0))
SCHEMA = Slots().arrow


def rows(*values: tuple[int | None, str | None]) -> pa.Table:
    """Rows of a producer whose columns are the other way round."""
    numbers, keys = ([one[place] for one in values] for place in (0, 1))
    return pa.table({"b": pa.array(numbers, pa.int64()), "a": pa.array(keys, pa.string())})


def sent(route: Route, table: pa.Table, tasks: int) -> dict[int, list[dict[str, Any]]]:
    """What each task finds in its parcels."""
    mail = Mail()
    mail.add(route.number, route.addressed(route.chosen(table)))
    arrived: dict[int, list[dict[str, Any]]] = {}
    for parcel in mail.packed(tasks, SCHEMA):
        assert parcel[ROUTE].to_pylist() == [PARCELS + route.number]
        found = unpacked(pa.Table.from_batches([parcel]), route.schema)
        assert (tasks_of(found[HASH].to_numpy(), tasks) == parcel[TASK][0].as_py()).all()
        arrived.setdefault(parcel[TASK][0].as_py(), []).extend(found.to_pylist())
    assert not list(mail.packed(tasks, SCHEMA))
    return arrived


@pytest.mark.parametrize("tasks", [1, 2, 5])
def test_every_row_arrives_once(tasks: int) -> None:
    given = [(number, f"key-{number % 50}") for number in range(1000)]
    arrived = sent(PLAIN, rows(*given), tasks)
    assert len(arrived) == tasks
    found = [(row["v"], row["k"]) for part in arrived.values() for row in part]
    assert sorted(found) == given
    assert {row[WEIGHT] for part in arrived.values() for row in part} == {1}


def test_rows_with_nulls_stay_behind_where_they_must_not_be() -> None:
    route = Route(3, COLUMNS, PLAIN.schema, ("k",), None, places=(1, 0), present=(0,))
    (arrived,) = sent(route, rows((1, "a"), (None, "b"), (2, None)), 1).values()
    assert [(row["k"], row["v"]) for row in arrived] == [("a", 1), (None, 2)]


def test_rows_of_an_aggregate_are_added_up_on_their_way() -> None:
    function = Function("sum", ("v",), "total", pa.int64())
    kernel = Aggregate(("k",), (function,), COLUMNS, measured=True)
    schema = empty(kernel.ports["rows"], hashed=True).schema
    route = Route(4, COLUMNS, schema, ("k",), kernel, places=(1, 0))
    (arrived,) = sent(route, rows((1, "a"), (2, "b"), (3, "a"), (4, "a")), 1).values()
    assert sorted((row["k"], row[WEIGHT], row["_0_0"]) for row in arrived) == [("a", 3, 8), ("b", 1, 2)]


def test_rows_that_hardly_repeat_are_measured_one_by_one() -> None:
    function = Function("sum", ("v",), "total", pa.int64())
    kernel = Aggregate(("k",), (function,), COLUMNS, measured=True)
    schema = empty(kernel.ports["rows"], hashed=True).schema
    route = Route(4, COLUMNS, schema, ("k",), kernel, places=(1, 0))
    (arrived,) = sent(route, rows((1, "a"), (2, "b"), (3, "c"), (4, "d"), (5, "a")), 1).values()
    assert [(row["k"], row["_0_0"]) for row in arrived] == [("a", 1), ("b", 2), ("c", 3), ("d", 4), ("a", 5)]


def test_many_rows_are_several_parcels() -> None:
    mail = Mail()
    many = pa.table({"b": np.arange(200_000), "a": pa.repeat("key", 200_000)})
    mail.add(3, PLAIN.addressed(PLAIN.chosen(many)))
    sizes = [len(parcel[PACKED][0].as_buffer()) for parcel in mail.packed(1, SCHEMA)]
    assert len(sizes) > 5
    assert max(sizes) < 2 * PARCEL_BYTES
    # So numbers in the next one lie where numbers may.
    assert all(size % 8 == 0 for size in sizes)


def test_a_note_passes() -> None:
    row = note(SCHEMA, '{"level": 1}')
    assert row[ROUTE].to_pylist() == [NOTES]
    assert row[PACKED][0].as_py().decode().strip() == '{"level": 1}'
    assert len(row[PACKED][0].as_py()) % 8 == 0

"""The log as a table: the newest row per key at a position, and every record of a range, in Arrow."""

from __future__ import annotations

import pyarrow as pa
import pytest

from headwater.errors import UsageError
from headwater.log.port import Log
from headwater.model.position import START
from tests.contract.implementation import RETENTION, Implementation
from tests.contract.looking import ORDERS, order, orders, table


@pytest.mark.parametrize("settled", [False, True])
def test_a_table_has_the_newest_row_of_each_key_at_a_position(
    log: Log, implementation: Implementation, settled: bool
) -> None:
    log.create("orders", ORDERS, key="id", partitions=3, cleanup="none")
    states: list[dict[object, object]] = [{}]
    positions = [START]
    for number in range(12):
        state = dict(states[-1])
        if number % 4 == 3:
            positions.append(log.delete("orders", [{"id": number % 5}]))
            state.pop(number % 5, None)
        else:
            positions.append(log.append("orders", [order(number % 5, 0), order(9, 1), order(number % 5, number)]))
            state |= {number % 5: number, 9: 1}
        states.append(state)
        if settled and number % 3 == 0:
            implementation.settle(log, "orders")
    assert table(log, "orders") == states[-1]
    for position, state in zip(positions, states, strict=True):
        found = log.table("orders", at=position)
        assert {row["id"]: row["amount"] for row in found.to_pylist()} == state
        assert found.num_rows == len(state)
        assert found.schema == log.topic("orders").schema


def test_a_table_of_nothing_has_the_columns(log: Log) -> None:
    schema = log.create("orders", ORDERS, key="id", partitions=2).schema
    assert log.table("orders") == schema.empty_table()
    log.append("orders", orders(1))
    assert log.table("orders", at=START) == schema.empty_table()


def test_a_key_of_several_columns_with_values_of_every_kind(log: Log) -> None:
    log.create("rates", "day date, name string, price decimal(5,2), rate int", key=["day", "name", "price"])
    rows = [
        {"day": day, "name": name, "price": price}
        for day in ("2026-01-01", "2026-01-02")
        for name in ("", "a", "ä", "a\0")
        for price in ("1.00", "1.01")
    ]
    for rate in range(3):
        log.append("rates", [{**row, "rate": rate} for row in rows])
    found = log.table("rates")
    assert found.num_rows == len(rows)
    assert set(found["rate"].to_pylist()) == {2}


def test_a_table_needs_a_key(log: Log) -> None:
    log.create("events", ORDERS)
    with pytest.raises(UsageError):
        log.table("events")


def test_a_scan_has_every_record_of_its_range(log: Log) -> None:
    log.create("orders", ORDERS, key="id", partitions=2)
    first = log.append("orders", orders(1, 2, 3))
    second = log.append("orders", orders(1))
    log.delete("orders", [{"id": 2}])
    assert sorted(log.scan("orders")["id"].to_pylist()) == [1, 1, 2, 2, 3]
    assert log.scan("orders", start=first, end=second)["id"].to_pylist() == [1]
    assert log.scan("orders", end=first).num_rows == 3


@pytest.mark.parametrize("settled", [False, True])
def test_a_scan_gives_the_columns_asked_for_in_that_order(
    log: Log, implementation: Implementation, settled: bool
) -> None:
    log.create("orders", ORDERS, partitions=2)
    log.append("orders", [order(1, 5)], partition=1)
    if settled:
        implementation.settle(log, "orders")
    assert log.scan("orders", columns=["_partition", "amount", "_offset"]).to_pylist() == [
        {"_partition": 1, "amount": 5, "_offset": 0}
    ]
    assert log.scan("orders", columns=["amount"]).to_pylist() == [{"amount": 5}]
    assert log.scan("orders", columns=[]).num_columns == 0
    with pytest.raises(UsageError):
        log.scan("orders", columns=["amount", "nothing"])


def test_an_empty_scan_has_the_columns_of_a_full_one(log: Log) -> None:
    log.create("orders", ORDERS + ", tags map<string, array<int>>", partitions=2)
    empty, few = log.scan("orders"), log.scan("orders", columns=["_received_at", "id"])
    assert empty.num_rows == few.num_rows == 0
    log.append("orders", [{"id": 1, "tags": {"a": [1]}, "_headers": {"h": "1"}}])
    assert log.scan("orders").schema == empty.schema
    assert log.scan("orders", columns=["_received_at", "id"]).schema == few.schema
    assert log.scan("orders", start="latest").schema == empty.schema


def test_a_scan_over_settled_and_new_records_is_one_table(log: Log, implementation: Implementation) -> None:
    log.create("orders", ORDERS)
    log.append("orders", orders(1, 2))
    implementation.settle(log, "orders")
    log.append("orders", [{"id": 3, "_headers": {"a": "b"}}])
    log.append("orders", pa.table({"id": range(4, 3000)}))
    assert log.scan("orders")["id"].to_pylist() == list(range(1, 3000))


def test_a_table_of_what_retention_left(log: Log, implementation: Implementation) -> None:
    log.create("orders", ORDERS, key="id", retention_age=RETENTION)
    log.append("orders", [order(1, 1), order(2, 2)])
    implementation.forget(log, "orders")
    position = log.append("orders", [order(2, 3)])
    assert table(log, "orders") == {2: 3}
    assert log.table("orders", at=position).num_rows == 1

"""What raw Spark and DuckDB answer is compared as it is meant."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal

import pyarrow as pa
import pytest

from headwater.log.topic import Topic, TopicSettings
from tests.sql.casefile import CaseFile, View
from tests.sql.duck import run_by_duckdb
from tests.sql.oracles import Answers, arranged
from tests.sql.running import Oracle

SCHEMA = pa.schema([("id", pa.int64()), ("at", pa.timestamp("us", "UTC"))])
TOPIC = Topic(1, "t", (SCHEMA,), ("id",), 1, None, TopicSettings())
ROWS = pa.table({"id": [1, 2, 3], "at": [datetime(2026, 1, day, tzinfo=UTC) for day in (1, 2, 3)]}, SCHEMA)


def answers(*tables: pa.Table) -> Answers:
    found = Answers(tables[0])
    for table in tables:
        found.add(table)
    return found


def test_equal_answers_are_one() -> None:
    assert not answers(pa.table({"x": [1, 2]}), pa.table({"x": [2, 1]})).are_open


def test_different_answers_leave_it_open() -> None:
    assert answers(pa.table({"x": [1, 2]}), pa.table({"x": [2, 2]})).are_open


def test_a_row_of_no_answer_is_impossible() -> None:
    found = answers(pa.table({"x": [1], "l": [[1, 2]]}), pa.table({"x": [2], "l": [[2]]}))
    assert found.impossible([["x", "l"], ["1", "[2, 1]"], ["2", "[1, 2]"]]) == [["2", "[1, 2]"]]


def test_arrangements() -> None:
    orders = [tuple(arranged({TOPIC: ROWS}, run)[TOPIC]["id"].to_pylist()) for run in range(8)]
    assert orders[:2] == [(1, 2, 3), (3, 2, 1)]
    assert all(sorted(order) == [1, 2, 3] for order in orders)
    assert len(set(orders)) > 3


@pytest.mark.parametrize(
    ("sql", "right"),
    [
        ("SELECT sum(id) AS x FROM t", pa.array([6], pa.int64())),
        ("SELECT avg(id) / 3 AS x FROM t", pa.array([Decimal("0.667")], pa.decimal128(10, 3))),
        ("SELECT id AS x FROM t WHERE at = '2026-01-02' OR id <=> NULL", pa.array([2], pa.int64())),
        ("SELECT max(at)::date AS x FROM t", pa.array([datetime(2026, 1, 3, tzinfo=UTC)], pa.timestamp("us", "UTC"))),
        ("SELECT max(at)::date AS x FROM t", pa.array([date(2026, 1, 3)])),
        ("SELECT list(id ORDER BY id) AS x FROM t", pa.array([[1.0, 2.0, 3.0]])),
        ("SELECT map {1: id} AS x FROM t WHERE id = 1", pa.array([[(1, 1.0)]], pa.map_(pa.int32(), pa.float64()))),
        ("SELECT {'a': id} AS x FROM t WHERE id = 1", pa.array([{"b": 1.0}], pa.struct([("b", pa.float64())]))),
    ],
)
def test_duckdb_answers_with_the_types_of_spark(sql: str, right: pa.Array) -> None:
    found = answers(pa.table({"x": right}))
    file = CaseFile("file", views=[View("v", sql)])
    assert [run_by_duckdb(file, Oracle({TOPIC: ROWS}, [], {"v": found}, frozenset()))["v"]] == found.written


def test_duckdb_does_not_answer_what_it_does_not_run() -> None:
    file = CaseFile("file", views=[View("v", "SELECT explode(array(1)) AS x")])
    assert run_by_duckdb(file, Oracle({}, [], {}, frozenset())) == {}

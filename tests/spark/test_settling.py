"""The order that settles ties tells all rows apart that differ, whatever their types."""

from __future__ import annotations

import pytest
from pyspark.sql import Row, SparkSession

from headwater.spark.catalyst import Catalyst
from headwater.spark.catalyst.settling import completed

VALUES: dict[str, list[object]] = {
    "bigint": [None, 0, 1],
    "string": [None, "", "a", "A", "a "],
    "binary": [None, b"", b"\x00"],
    "array<string>": [None, [], [None], ["a"], ["a", None]],
    "struct<`a b`: int, `q``q`: string>": [None, (None, None), (1, None), (None, "1")],
    "map<string, string>": [
        None, {}, {"x": None}, {"x": None, "y": "z"}, {"x": "y", "z": None}, {"x": "y", "z": ""}, {"x": ""}, {"": "x"},
    ],
    "map<int, int>": [None, {}, {1: None}, {0: 1}, {1: 0}, {1: None, 0: None}],
    "array<map<string, int>>": [None, [], [None], [{}], [{}, None], [None, {}], [{"a": None}], [{"a": 0}]],
    "struct<m: map<int, int>, n: map<int, int>>": [None, (None, None), ({}, None), (None, {}), ({1: 2}, None)],
    "map<string, map<string, array<int>>>": [None, {}, {"a": None}, {"a": {}}, {"a": {"b": None}}, {"a": {"b": []}}],
    "map<string, struct<m: map<string, int>>>": [None, {"a": None}, {"a": Row(m=None)}, {"a": Row(m={})}],
}  # fmt: skip


@pytest.mark.parametrize("kind", VALUES)
def test_values_that_differ_have_an_order(spark: SparkSession, kind: str) -> None:
    catalyst = Catalyst(spark)
    frame = spark.createDataFrame([(value,) for value in VALUES[kind]], f"v {kind}", verifySchema=False)
    plan = catalyst.analyzed(frame)
    (order,) = completed(catalyst, [], catalyst.output(plan))
    assert catalyst.is_orderable(order.child)
    ordered = catalyst.frame(plan).select(catalyst.column(order.child).alias("o"))
    assert ordered.distinct().count() == len(VALUES[kind])

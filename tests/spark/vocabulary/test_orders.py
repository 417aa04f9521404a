"""Aggregates that are called independent of the order of rows are so, in a Spark that does not know headwater."""

from __future__ import annotations

import math
from collections.abc import Iterator
from decimal import Decimal
from itertools import permutations
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from headwater.spark.raw import RawSpark
from headwater.spark.vocabulary import Kind, tables, words
from headwater.spark.vocabulary.kinds import EXPRESSIONS, classify

ROWS = 3000
COLUMNS = (
    "g bigint, v bigint, x double, y double, d decimal(12,2), s string, big bigint, f array<float>, b boolean, "
    "j string, w interval day to second"
)
DOCUMENTS = ["1", "1.5", '"a"', '{"a": 1}', '{"a": "x", "b": [1, 2.5]}', "[1]", "null", "12345678901234567890123"]
# Each in as many partitions, from rows shuffled by the seed.
RUNS = ((1, 1), (2, 1), (3, 3), (4, 5))
INDEPENDENT = """
count(*); count(v); count_if(v > 0); sum(v); sum(x); sum(d); sum(w); avg(v); avg(x); avg(d); mean(w);
min(x); max(s); min(d); max(b); min(j); max(w); every(b); any(b); bool_and(b); some(b);
bit_and(v); bit_or(v); bit_xor(v); stddev(x); stddev_pop(x); stddev_samp(v); var_pop(x); var_samp(x); variance(v);
skewness(x); kurtosis(x); corr(x, y); covar_pop(x, y); covar_samp(x, y); regr_avgx(x, y); regr_avgy(x, y);
regr_count(x, y); regr_intercept(x, y); regr_r2(x, y); regr_slope(x, y); regr_sxx(x, y); regr_sxy(x, y); regr_syy(x, y);
percentile(x, 0.3); percentile(v, array(0.1, 0.5), big); median(x); percentile_cont(0.3) WITHIN GROUP (ORDER BY x DESC);
percentile_disc(0.3) WITHIN GROUP (ORDER BY v); approx_count_distinct(s); approx_count_distinct(big, 0.01);
count_min_sketch(v, 0.01d, 0.9d, 1); bitmap_construct_agg(bitmap_bit_position(big)); bitmap_or_agg(unhex(hex(big)));
bitmap_and_agg(unhex(hex(big))); mode(v, true); mode() WITHIN GROUP (ORDER BY v DESC); max_by(v, struct(x, v));
array_sort(collect_list(v)); array_sort(collect_set(s)); listagg(s, ',') WITHIN GROUP (ORDER BY s);
schema_of_variant_agg(parse_json(j))
"""
DEPENDENT = """
first(v); last(x); any_value(s); collect_list(v); listagg(s, ','); max_by(x, v > 0); min_by(s, b, 3);
approx_percentile(v, 0.5, 20); histogram_numeric(x, 5); hll_sketch_agg(big); kll_sketch_agg_bigint(v); vector_sum(f);
vector_avg(f); tuple_sketch_agg_integer(s, cast(v AS int))
"""


def calls(text: str) -> list[str]:
    return [one.strip() for one in text.split(";") if one.strip()]


@pytest.fixture(scope="module")
def raw(spark: SparkSession) -> RawSpark:
    made = RawSpark(spark, {"spark.sql.adaptive.enabled": "false", "spark.sql.shuffle.partitions": "2"})
    made.put("t", rows(), schema(COLUMNS))
    return made


def schema(ddl: str) -> StructType:
    made = StructType.fromDDL(ddl)
    assert isinstance(made, StructType)
    return made


def rows() -> pa.Table:
    """Rows in three groups, with ties, nulls and duplicates."""
    chance = np.random.default_rng(7)

    def holes(values: Any, kind: pa.DataType | None = None) -> pa.Array:
        return pa.array(values, kind, mask=chance.random(ROWS) < 0.1)

    whole, x, y = chance.integers(-50, 50, ROWS), chance.normal(5, 3, ROWS), chance.normal(1, 2, ROWS)
    return pa.table(
        {
            "g": chance.integers(0, 3, ROWS),
            "v": holes(whole),
            "x": holes(x),
            "y": holes(y),
            "d": holes([Decimal(int(one)) / 100 for one in whole], pa.decimal128(12, 2)),
            "s": [f"k{one}" for one in chance.integers(0, 97, ROWS)],
            "big": chance.integers(1, 10**6, ROWS),
            "f": pa.array([[1e4 * a, b] for a, b in zip(x, y, strict=True)], pa.list_(pa.float32())),
            "b": holes(whole > 0),
            "j": [DOCUMENTS[one] for one in chance.integers(0, len(DOCUMENTS), ROWS)],
            "w": holes(whole.astype("timedelta64[us]")),
        }
    )


def answers(raw: RawSpark, aggregates: list[str]) -> Iterator[list[list[Any]]]:
    """For each run, the results of each aggregate in all groups."""
    listed = ", ".join(f"{one} AS _{number}" for number, one in enumerate(aggregates))
    for seed, partitions in RUNS:
        raw.put("shuffled", rows(), schema(COLUMNS), seed=seed)
        divided = raw.session.table("shuffled").repartition(partitions)
        raw.name("divided", divided if partitions > 1 else raw.session.table("shuffled").coalesce(1))
        found = raw.answer(raw.frame(f"SELECT g, {listed} FROM divided GROUP BY g ORDER BY g"))
        assert found.num_rows == 3
        yield [found[f"_{number}"].to_pylist() for number in range(len(aggregates))]


def alike(left: Any, right: Any) -> bool:
    """Whether two values are the same, but for the last bits of a double."""
    if isinstance(left, float) and isinstance(right, float):
        return math.isclose(left, right, rel_tol=1e-9, abs_tol=1e-9) or (math.isnan(left) and math.isnan(right))
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(alike, left, right))
    return bool(left == right)


def test_every_aggregate_of_values_has_one_result_for_every_order_of_rows(raw: RawSpark) -> None:
    given = calls(INDEPENDENT)
    first, *others = answers(raw, given)
    assert [call for call, *results in zip(given, first, *others, strict=True) if not _is_one(results)] == []


def test_the_others_do_not(raw: RawSpark) -> None:
    given = calls(DEPENDENT)
    first, *others = answers(raw, given)
    assert [call for call, *results in zip(given, first, *others, strict=True) if _is_one(results)] == []


def _is_one(results: list[Any]) -> bool:
    return all(alike(results[0], other) for other in results[1:])


def test_every_aggregate_that_is_called_independent_was_run(raw: RawSpark) -> None:
    frame = raw.frame(f"SELECT {', '.join(calls(INDEPENDENT))} FROM t")
    found = words(frame._jdf.queryExecution().analyzed().toJSON())
    # The first is what PIVOT makes of rows that are grouped already, the second is a part of other aggregates.
    inner = {"aggregate.PivotFirst", "aggregate.RegrReplacement"}
    assert set(tables.AGGREGATES.split()) - {word.name for word in found.expressions} == inner
    kinds = {word.kind for word in found.expressions}
    assert kinds == {Kind.DETERMINISTIC, Kind.SETTLED}


def test_the_others_are_classified_as_such(raw: RawSpark) -> None:
    for call in calls(DEPENDENT):
        found = words(raw.frame(f"SELECT {call} FROM t")._jdf.queryExecution().analyzed().toJSON())
        assert {word.kind for word in found.expressions} & {Kind.SETTLED, Kind.ORDER, Kind.UNSTABLE}, call


def test_whether_a_sum_overflows_depends_on_the_order_of_rows(raw: RawSpark) -> None:
    largest = 2**63 - 1
    found = set()
    for values in permutations([largest, 1, -5]):
        raw.put("three", pa.table({"v": pa.array(values, pa.int64())}), schema("v bigint"))
        raw.name("one", raw.session.table("three").coalesce(1))
        found.update(raw.answer(raw.frame("SELECT try_sum(v) AS s FROM one"))["s"].to_pylist())
    assert found == {None, largest - 4}
    assert classify(f"{EXPRESSIONS}aggregate.Sum") is Kind.DETERMINISTIC

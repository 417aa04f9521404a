"""Columns of the types that are kept come back from Python as they went there, and those of others do not."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import xxhash64
from pyspark.sql.pandas.types import from_arrow_type, to_arrow_type

from headwater.spark.catalyst.types import nullable
from headwater.spark.vocabulary import accepted_type
from headwater.spark.vocabulary.types import KEPT

KEPT_VALUES = [
    "true",
    "1Y",
    "1S",
    "1",
    "9223372036854775807",
    "float('NaN')",
    "double('-0.0')",
    "CAST('12345678901234567890.123456789012345678' AS decimal(38, 18))",
    "'a\\u0000b'",
    "''",
    "X'00ff'",
    "date '0001-01-01'",
    "timestamp '0001-01-01 00:00:00.000001'",
    "timestamp_ntz '9999-12-31 23:59:59.999999'",
    "INTERVAL '106751991 04:00:54.775807' DAY TO SECOND",
    "INTERVAL '3' DAY",
]
REFUSED_VALUES = [
    ("make_interval(1, 2, 3, 4, 5, 6, 7.5)", "{value}"),
    ("INTERVAL '3-4' YEAR TO MONTH", "{value}"),
    ("parse_json('1')", "{value}"),
    ("st_geomfromwkb(X'0101000000000000000000F03F0000000000000040')", "{value}"),
    ("st_geogfromwkb(X'0101000000000000000000F03F0000000000000040')", "{value}"),
    ("'A' COLLATE UTF8_LCASE", "{value}"),
    ("NULL", "array({value}, {value})"),
    ("NULL", "map('a', {value}, 'b', {value})"),
    ("1", "named_struct('a', {value}, 'a', 2)"),
]
# As a column, and inside of every other type, with a null beside it.
PLACES = [
    "{value}",
    "array({value}, CAST(NULL AS {kind}))",
    "named_struct('a', {value}, 'b', CAST(NULL AS {kind}))",
    "map('a', {value}, 'b', CAST(NULL AS {kind}))",
    "map({value}, 1)",
    "map('a', array(named_struct('a', map({value}, CAST(NULL AS {kind})))))",
]


def columns(session: SparkSession, values: Sequence[str], places: Sequence[str] = PLACES) -> DataFrame:
    """Columns that hold each value in each place, and nulls, with everything in their types nullable."""
    kinds = [one.dataType.simpleString() for one in session.sql(f"SELECT {', '.join(values)}").schema]
    filled = [
        place.format(value=value, kind=kind) for value, kind in zip(values, kinds, strict=True) for place in places
    ]
    listed = ", ".join(f"{one} AS c{number}" for number, one in enumerate(filled))
    frame = session.sql(f"SELECT {listed} UNION ALL SELECT {', '.join(['NULL'] * len(filled))}")
    cast = [frame[one.name].cast(nullable(one.dataType)).alias(one.name) for one in frame.schema]
    return frame.select(*cast)


def through_python(frame: DataFrame) -> DataFrame:
    def unchanged(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from batches

    return frame.mapInArrow(unchanged, frame.schema)


def held(frame: DataFrame) -> dict[str, str]:
    """The values of each column as Arrow holds them."""
    found = frame.toArrow()
    return {name: repr(found[name].to_pylist()) for name in frame.columns}


def hashed(frame: DataFrame) -> dict[str, str]:
    """The values of each column as Spark hashes them."""
    return held(frame.select(*(xxhash64(frame[name]).alias(name) for name in frame.columns)))


def test_the_kept_types_come_back_as_they_were(spark: SparkSession) -> None:
    frame = columns(spark, KEPT_VALUES)
    assert [accepted_type(field.dataType) for field in frame.schema] == [None] * len(frame.columns)
    assert frame.toArrow().schema.types == [to_arrow_type(field.dataType, timezone="UTC") for field in frame.schema]
    back = through_python(frame)
    assert held(back) == held(frame)
    assert hashed(back) == hashed(frame)


def test_every_kept_type_is_among_them(spark: SparkSession) -> None:
    tried = {type(field.dataType) for field in spark.sql(f"SELECT {', '.join(KEPT_VALUES)}").schema}
    assert tried == KEPT


@pytest.mark.parametrize(("value", "place"), REFUSED_VALUES)
def test_a_refused_type_is_lost(spark: SparkSession, value: str, place: str) -> None:
    frame = columns(spark, [value], [place])
    kind = frame.schema[0].dataType
    assert accepted_type(kind) is not None
    try:
        came_back = held(through_python(frame)) == held(frame) and from_arrow_type(to_arrow_type(kind)) == kind
    except (PySparkException, pa.ArrowException, ValueError):
        came_back = False
    assert not came_back

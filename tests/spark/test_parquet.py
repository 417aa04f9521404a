"""Spark sees the values that pyarrow wrote to a Parquet file, types included."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession
from pyspark.sql.types import DecimalType, LongType, MapType, StringType, StructField, StructType, TimestampType

SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("at", pa.timestamp("us", tz="UTC")),
        ("price", pa.decimal128(18, 4)),
        ("headers", pa.map_(pa.string(), pa.string())),
    ]
)
ROWS = [
    {
        "id": 1,
        "at": datetime(2024, 2, 29, 23, 59, 59, 999_999, tzinfo=UTC),
        "price": Decimal("12345678901234.5678"),
        "headers": [("trace", "a"), ("origin", "shop")],
    },
    {"id": 2, "at": datetime(1969, 12, 31, 12, tzinfo=UTC), "price": Decimal("-0.0001"), "headers": []},
    {"id": 3, "at": None, "price": None, "headers": None},
]


def test_spark_reads_what_pyarrow_wrote(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "rows.parquet"
    pq.write_table(pa.Table.from_pylist(ROWS, schema=SCHEMA), path)

    frame = spark.read.parquet(str(path)).orderBy("id")

    assert frame.schema == StructType(
        [
            StructField("id", LongType()),
            StructField("at", TimestampType()),
            StructField("price", DecimalType(18, 4)),
            StructField("headers", MapType(StringType(), StringType())),
        ]
    )
    assert frame.toArrow().to_pylist() == ROWS

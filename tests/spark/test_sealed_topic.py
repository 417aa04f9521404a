"""Spark reads a sealed topic as a table, with the log's own types."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

from pyspark.sql import SparkSession

from headwater.log.embedded.log import EmbeddedLog

COLUMNS = "id bigint, at timestamp, price decimal(18,4), tags array<string>, labels map<string,string>"
ROWS: list[dict[str, object]] = [
    {
        "id": 1,
        "at": datetime(2024, 2, 29, 23, 59, 59, 999_999, tzinfo=UTC),
        "price": Decimal("12345678901234.5678"),
        "tags": ["new", "gift"],
        "labels": [("trace", "a"), ("origin", "shop")],
    },
    {
        "id": 2,
        "at": datetime(1969, 12, 31, 12, tzinfo=UTC),
        "price": Decimal("-0.0001"),
        "tags": [],
        "labels": [],
    },
    {"id": 3, "at": None, "price": None, "tags": None, "labels": None},
]


def test_spark_reads_a_sealed_topic(spark: SparkSession, tmp_path: Path) -> None:
    with EmbeddedLog(tmp_path / "log") as log:
        log.create("orders", COLUMNS, key="id", partitions=2)
        log.append("orders", ROWS)
        log.append("orders", [{"id": 3, "price": "7"}])
        log.delete("orders", [{"id": 2}])
        log.seal("orders")
        files = [str(file) for file in log.files("orders")]
        table = log.table("orders").sort_by("id").to_pylist()

    frame = spark.read.parquet(*files)
    frame.createOrReplaceTempView("records")
    newest = spark.sql("""
        SELECT id, at, price, tags, labels FROM records
        QUALIFY row_number() OVER (PARTITION BY id ORDER BY _commit DESC) = 1 AND NOT coalesce(_deleted, false)
        ORDER BY id
    """)

    assert frame.count() == 5
    assert frame.select("id", "at", "price", "tags", "labels").schema.simpleString() == (
        "struct<id:bigint,at:timestamp,price:decimal(18,4),tags:array<string>,labels:map<string,string>>"
    )
    assert newest.toArrow().to_pylist() == table

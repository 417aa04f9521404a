"""Spark reads the files of every format as headwater wrote them, with the types that a view has in Spark."""

from __future__ import annotations

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from tests.lake.bringing import Bringer
from tests.lake.formats import Format
from tests.lake.test_tables import HIGHEST, KINDS, LOWEST


@pytest.mark.spark
def test_spark_reads_every_type(made: Format, spark: SparkSession) -> None:
    rows = pa.Table.from_pylist([LOWEST, HIGHEST, {"key": 0}], KINDS)
    Bringer(made.target(), ["key"]).bring(rows)
    read = spark.read.parquet(*made.listed())
    widened = {"tiny": "int", "small": "int"} if type(made).__name__ == "IcebergFormat" else {}
    kinds = {field.name: field.dataType.simpleString() for field in read.schema}
    assert kinds == {
        "key": "bigint",
        "bool": "boolean",
        "tiny": "tinyint",
        "small": "smallint",
        "int": "int",
        "float": "float",
        "double": "double",
        "decimal": "decimal(38,10)",
        "text": "string",
        "binary": "binary",
        "date": "date",
        "at": "timestamp",
        "local": "timestamp_ntz",
        "list": "array<int>",
        "struct": "struct<a:bigint,b:array<string>>",
        "map": "map<string,double>",
        **widened,
    }
    found = {
        row["key"]: row
        for row in read.selectExpr(
            # Python has no value for some of these instants.
            "* EXCEPT (at, local)",
            "string(at) AS moment",
            "string(local) AS clock",
            "string(decimal) AS exact",
        ).collect()
    }
    assert set(found) == {LOWEST["key"], 0, HIGHEST["key"]}
    highest, lowest, nothing = found[HIGHEST["key"]], found[LOWEST["key"]], found[0]
    assert (highest["text"], bytes(highest["binary"])) == (HIGHEST["text"], HIGHEST["binary"])
    assert highest["moment"] == highest["clock"] == "9999-12-31 23:59:59.999999"
    assert lowest["moment"] == lowest["clock"] == "0001-01-01 00:00:00"
    assert lowest["exact"] == str(LOWEST["decimal"])
    assert (highest["list"], highest["map"]) == (HIGHEST["list"], dict(HIGHEST["map"]))
    assert (highest["struct"]["a"], highest["struct"]["b"]) == (1, ["x", None])
    assert lowest["date"] == LOWEST["date"]
    assert all(
        nothing[name] is None for name in (*KINDS.names, "moment", "clock") if name not in ("key", "at", "local")
    )

"""A session that knows every type of this Spark, and one table."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

# Types that are not complete in this Spark, and that are left out unless they are asked for.
_ALL_TYPES = {"spark.sql.timeType.enabled": "true", "spark.sql.timestampNanosTypes.enabled": "true"}
_COLUMNS = (
    "id bigint, g string, x double, y double, d decimal(10,2), at timestamp, n timestamp_ntz, day date, a array<int>, "
    "m map<string,int>, st struct<u:int,w:string>, b binary"
)


@pytest.fixture(scope="session")
def session(spark: SparkSession) -> SparkSession:
    """A session with every type that this Spark has, and a table to query."""
    made = spark.newSession()
    for name, value in _ALL_TYPES.items():
        made.conf.set(name, value)
    made.createDataFrame([], _COLUMNS).createOrReplaceTempView("t")
    return made

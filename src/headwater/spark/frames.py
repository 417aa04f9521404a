"""Topics and views as Spark DataFrames."""

from __future__ import annotations

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType, _parse_datatype_string

from headwater.engine.sparkplace import SparkPlace
from headwater.errors import NotYet
from headwater.log.port import Log
from headwater.model.ddl import format_ddl
from headwater.model.position import Position
from headwater.spark.session import session_at

__all__ = ["DataFrame", "SparkSession", "dataframe", "topic_rows"]


def dataframe(place: SparkPlace, rows: pa.Table) -> DataFrame:
    """Rows as a DataFrame of the application's session, with the types that views see them in."""
    session = session_at(place)
    schema = _parse_datatype_string(format_ddl(rows.schema))
    assert isinstance(schema, StructType)
    return session.createDataFrame(rows.combine_chunks(), schema=schema)


def topic_rows(log: Log, name: str, *, at_least: Position | None, at: Position | None) -> pa.Table:
    """What a topic holds: the newest row per key or, without a key, its records. Raises `NotYet`."""
    topic, reached = log.topic(name), log.position()
    if at_least is not None and not at_least <= reached:
        raise NotYet(str(at_least), str(reached), 0, of_log=True)
    return log.table(name, at=at) if topic.key else log.scan(name, end=at, columns=topic.schema.names)

"""The past of a topic by plain Spark: its rows, changes and versions as queries over all of its records.

It is the oracle for what the kernels keep up to date, and shares nothing with them but the names of columns.
"""

from __future__ import annotations

from collections.abc import Iterable

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.window import WindowSpec

from headwater.engine.lateness import LATE_BY, REASON, WATERMARK
from headwater.log.topic import Topic
from headwater.model.record import SQL_COLUMNS
from headwater.spark.catalyst.history import Reference

_NUMBER = "_number_of_record"
_MOMENT, _DELETED = "_received_at", "_deleted"


def past(records: DataFrame, topic: Topic, reference: Reference, *, judged: bool = False) -> DataFrame:
    """What a query reads that reads a topic in this way. `records` are those of `record_schema`."""
    own, system = _columns(topic.schema.names), _columns(SQL_COLUMNS)
    if reference.reading == "late":
        late = records.where(F.col(REASON).isNotNull())
        return late.select(*own, WATERMARK, LATE_BY, REASON, *system)
    if judged:
        records = records.where(F.col(REASON).isNull())
    if reference.reading == "changes":
        return records.select(*own, _operation(topic).alias("operation"), *system)
    if reference.reading == "versions":
        until = F.lead(_MOMENT).over(_by_key(topic))
        ended = records.withColumn("valid_to", until).withColumn("valid_from", F.col(_MOMENT))
        return ended.where(~F.col(_DELETED)).select(*own, "valid_from", "valid_to", *system)
    if not topic.key:
        return records.select(*own, *system)
    newest = records.withColumn(_NUMBER, F.row_number().over(_by_key(topic, newest_first=True)))
    return newest.where((F.col(_NUMBER) == 1) & ~F.col(_DELETED)).select(*own, *system)


def _operation(topic: Topic) -> Column:
    if not topic.key:
        return F.lit("insert")
    # Without a record before there was no row either.
    was_deleted = F.lag(_DELETED, 1, True).over(_by_key(topic))
    return F.when(F.col(_DELETED), "delete").when(was_deleted, "insert").otherwise("update")


def _by_key(topic: Topic, *, newest_first: bool = False) -> WindowSpec:
    order = _columns(("_commit", "_offset"))
    keys = _columns(topic.key)
    return Window.partitionBy(*keys).orderBy(*[one.desc() if newest_first else one.asc() for one in order])


def _columns(names: Iterable[str]) -> list[Column]:
    return [F.col(f"`{name}`") for name in names]

"""Verification: a view's SQL as an ordinary batch query over the log at the view's position, compared with the view.

Nothing of the planner, the kernels or the state takes part in it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from headwater.engine.comparison import DOUBLES_WITHIN, Difference, differences
from headwater.engine.functions import Function
from headwater.engine.store import Excluded
from headwater.errors import ViewFailed
from headwater.log.embedded import EmbeddedLog
from headwater.log.topic import Topic
from headwater.model.position import Position
from headwater.spark.catalyst import Catalyst
from headwater.spark.determinism import settled
from headwater.spark.failures import spark_fails, unexpected, view_failure
from headwater.spark.functions import register
from headwater.spark.program import Program, topic_schema


@dataclass(frozen=True, slots=True)
class Verification:
    """What the comparison of a view with the batch query found. Doubles may differ by `doubles_within`, relatively."""

    view: str
    position: Position
    rows: int
    differences: Sequence[Difference]
    doubles_within: float = DOUBLES_WITHIN

    @property
    def equal(self) -> bool:
        return not self.differences


class Batches:
    """Runs views as ordinary queries over a log, as it is at a position."""

    def __init__(self, program: Program, log: EmbeddedLog, functions: Sequence[Function] = ()) -> None:
        self._program, self._log = program, log
        self._session: SparkSession = program.session.newSession()
        self._session.conf.set("spark.sql.shuffle.partitions", str(program.tasks))
        for function in functions:
            register(self._session, function)
        self._catalyst = Catalyst(self._session)

    def content(self, view: str, position: Position, excluded: Sequence[Excluded] = ()) -> pa.Table:
        """What a view's query gives at a position."""
        return next(table for _, table in self.contents([view], position, excluded))

    def contents(
        self, views: Collection[str], position: Position, excluded: Sequence[Excluded] = ()
    ) -> Iterator[tuple[str, pa.Table]]:
        """What each of several views' queries gives at a position. Raises `ViewFailed` if one fails on its records."""
        needed = self._needed(views)
        for topic in self._log.topics():
            if topic.name in needed:
                rows = _rows(self._log, topic, position, [row for row in excluded if row.topic == topic.name])
                self._frame(topic, rows).createOrReplaceTempView(f"`{topic.name}`")
        for name, planned in self._program.views.items():
            if name not in needed:
                continue
            frame = self._catalyst.frame(settled(self._catalyst, planned.sql, self._catalyst.analyze(planned.sql)).plan)
            if name in views:
                yield name, self._collected(name, frame).cast(planned.schema)
            frame.createOrReplaceTempView(f"`{name}`")

    def verify(
        self, view: str, content: pa.Table, position: Position, excluded: Sequence[Excluded] = ()
    ) -> Verification:
        """Compares the content of a view with what its query gives."""
        expected = self.content(view, position, excluded)
        return Verification(view, position, expected.num_rows, differences(content, expected))

    def _needed(self, views: Collection[str]) -> set[str]:
        """Views, and the topics and views that they name, directly or not.

        By their SQL: the optimizer may have found that a pipeline need not read all of them.
        """
        needed = set(views)
        # Each comes after those that it reads.
        for name, planned in reversed(self._program.views.items()):
            if name in needed:
                needed.update(planned.reads)
        return needed

    def _collected(self, view: str, frame: DataFrame) -> pa.Table:
        try:
            return self._catalyst.collect(frame)
        except PySparkException as error:
            failure = view_failure(error, {}, {})
            raise (ViewFailed(view, failure.message) if failure else unexpected(error)) from error
        except Py4JJavaError as error:
            raise spark_fails(view, error) from error

    def _frame(self, topic: Topic, rows: pa.Table) -> DataFrame:
        # Spark takes an empty chunk for the end of a table.
        return self._session.createDataFrame(rows.combine_chunks(), schema=topic_schema(topic))


def _rows(log: EmbeddedLog, topic: Topic, position: Position, excluded: Sequence[Excluded]) -> pa.Table:
    """A topic as a query sees it: a stream's records, or a table's newest row per key."""
    if topic.key and not excluded:
        return log.table(topic.name, at=position).select(topic.schema.names)
    records = log.scan(topic.name, end=position)
    for row in excluded:
        mine = pc.and_(pc.equal(records["_partition"], row.partition), pc.equal(records["_offset"], row.offset))
        records = records.filter(pc.invert(mine))
    if topic.key:
        records = _newest(records, topic)
    return records.select(topic.schema.names)


def _newest(records: pa.Table, topic: Topic) -> pa.Table:
    """The newest record of each key, where it is no tombstone."""
    ordered = records.sort_by([("_commit", "ascending"), ("_offset", "ascending")])
    keys = zip(*(ordered[name].to_pylist() for name in topic.key), strict=True)
    last = {key: number for number, key in enumerate(keys)}
    newest = ordered.take(pa.array(sorted(last.values()), pa.int64()))
    return newest.filter(pc.invert(newest["_deleted"]))

"""Raw Spark: a session with Spark's own settings, which runs a query as anybody's Spark would.

Nothing of the planner, the kernels, the settled orders or the excluded rules takes part in it. Rows may be shuffled and
divided differently from run to run: an answer that changes with them is one that the SQL leaves open.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from headwater.log.topic import Topic
from headwater.spark.catalyst import Catalyst
from headwater.spark.catalyst.determinism import with_sorted_sets
from headwater.spark.catalyst.disturbing import disturbed
from headwater.spark.catalyst.history import Reference, frame_of, names_system_columns, references
from headwater.spark.past import past
from headwater.spark.session import ASOF_JOIN, SQL_SETTINGS
from headwater.spark.topics import record_schema

_KEPT = {"spark.sql.session.timeZone": "UTC", ASOF_JOIN: "true"}
FEW_ROWS: Mapping[str, str] = {
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}
"""Settings under which Spark answers a query over a few rows most quickly: interpreted, in one partition."""


class RawSpark:
    """Named tables and queries over them, in a session that shares nothing with headwater's but the machine."""

    def __init__(self, session: SparkSession, settings: Mapping[str, str] | None = None) -> None:
        self.session = session.newSession()
        for name in SQL_SETTINGS:
            self.session.conf.unset(name)
        for name, value in {**_KEPT, **(settings or {})}.items():
            self.session.conf.set(name, value)
        self._catalyst = Catalyst(self.session)
        self._topics: dict[str, tuple[Topic, DataFrame, bool]] = {}

    def put(self, name: str, rows: pa.Table, schema: StructType, *, seed: int | None = None) -> None:
        """Makes rows known by a name; with a seed, in another order."""
        # Spark takes an empty chunk for the end of a table.
        frame = self.session.createDataFrame(_shuffled(rows, seed).combine_chunks(), schema=schema)
        frame.createOrReplaceTempView(f"`{name}`")

    def put_records(self, topic: Topic, records: pa.Table, *, judged: bool = False, seed: int | None = None) -> None:
        """Makes the history of a topic known, by all of its records with their system columns.

        If they were `judged`, those that were late are not in its rows.
        """
        schema = record_schema(topic, judged=judged)
        rows = _shuffled(records.select(schema.names), seed)
        frame = self.session.createDataFrame(rows.combine_chunks(), schema=schema)
        self._topics[topic.name.lower()] = topic, frame, judged

    def frame(self, sql: str, *, sorted_sets: bool = False, seed: int | None = None) -> DataFrame:
        """What a query stands for; nothing has been computed yet.

        Sets that it collects may be asked for in order. With a seed, rows come in another order wherever the SQL says
        nothing about it; the session needs `DISTURBING_SETTINGS` for that.
        """
        frame = frame_of(self._catalyst, sql, self._history(sql))
        if not sorted_sets and seed is None:
            return frame
        plan = self._catalyst.analyzed(frame)
        if sorted_sets:
            plan = with_sorted_sets(self._catalyst, plan)
        if seed is not None:
            plan = disturbed(self._catalyst, plan, seed)
        return self._catalyst.frame(plan)

    def _history(self, sql: str) -> Mapping[Reference, DataFrame]:
        """What a query reads of the past of topics whose records are known."""
        if not self._topics:
            return {}
        read = references(self._catalyst, self._catalyst.parse(sql))
        with_system = names_system_columns(sql)
        return {
            reference.folded: past(records, topic, reference, judged=judged)
            for reference in read
            for topic, records, judged in [self._topics.get(reference.name.lower(), (None, None, False))]
            if topic is not None and records is not None and (with_system or reference.reading != "rows")
        }

    def name(self, name: str, frame: DataFrame) -> None:
        """Lets later queries read what a query stands for."""
        frame.createOrReplaceTempView(f"`{name}`")

    def answer(self, frame: DataFrame) -> pa.Table:
        """The rows of a query, with everything in their types nullable."""
        return self._catalyst.collect(frame)


def _shuffled(rows: pa.Table, seed: int | None) -> pa.Table:
    """The rows, with a seed in another order."""
    if seed is None:
        return rows
    return rows.take(pa.array(np.random.default_rng(seed).permutation(rows.num_rows)))

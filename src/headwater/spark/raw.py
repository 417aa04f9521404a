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

from headwater.spark.catalyst import Catalyst
from headwater.spark.catalyst.determinism import with_sorted_sets
from headwater.spark.catalyst.disturbing import disturbed
from headwater.spark.catalyst.relations import with_dotted_names
from headwater.spark.session import SQL_SETTINGS

_KEPT = {"spark.sql.session.timeZone": "UTC"}
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

    def put(self, name: str, rows: pa.Table, schema: StructType, *, seed: int | None = None) -> None:
        """Makes rows known by a name; with a seed, in another order."""
        if seed is not None:
            rows = rows.take(pa.array(np.random.default_rng(seed).permutation(rows.num_rows)))
        # Spark takes an empty chunk for the end of a table.
        frame = self.session.createDataFrame(rows.combine_chunks(), schema=schema)
        frame.createOrReplaceTempView(f"`{name}`")

    def frame(self, sql: str, *, sorted_sets: bool = False, seed: int | None = None) -> DataFrame:
        """What a query stands for; nothing has been computed yet.

        Sets that it collects may be asked for in order. With a seed, rows come in another order wherever the SQL says
        nothing about it; the session needs `DISTURBING_SETTINGS` for that.
        """
        frame = self.session.sql(with_dotted_names(self._catalyst, sql))
        if not sorted_sets and seed is None:
            return frame
        plan = self._catalyst.analyzed(frame)
        if sorted_sets:
            plan = with_sorted_sets(self._catalyst, plan)
        if seed is not None:
            plan = disturbed(self._catalyst, plan, seed)
        return self._catalyst.frame(plan)

    def name(self, name: str, frame: DataFrame) -> None:
        """Lets later queries read what a query stands for."""
        frame.createOrReplaceTempView(f"`{name}`")

    def answer(self, frame: DataFrame) -> pa.Table:
        """The rows of a query, with everything in their types nullable."""
        return self._catalyst.collect(frame)

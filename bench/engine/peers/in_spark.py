"""A line of the benchmark in Spark's own streaming: its native operators, in update mode."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.dataset as ds
from pyspark.sql import DataFrame, SparkSession

from bench.engine.peers import trickle
from bench.engine.peers.answering import Answer, Question, Topic, main, newest
from bench.engine.peers.spark_session import SETTINGS, VERSIONS, drain, session, stream, timed

FILES_PER_BATCH = 8
"""Of half a million rows each."""

IN_MEMORY = "org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider"
STATE_STORE = "spark.sql.streaming.stateStore.providerClass"


def run(question: Question) -> Answer:
    began = time.monotonic()
    settings = {**SETTINGS, STATE_STORE: os.environ.get("HEADWATER_BENCH_STATE_STORE", IN_MEMORY)}
    if question.line == trickle.LINE:
        return _trickled(question, settings, began)
    with session(settings) as spark:

        def job(source: Path, folder: Path) -> None:
            drain(_query(spark, question, source), folder)

        seconds = timed(question, job)
        start_seconds = time.monotonic() - began - seconds
    shown = {**settings, "maxFilesPerTrigger": str(FILES_PER_BATCH)}
    return Answer(_view(question.work / "run" / "rows"), seconds, start_seconds, VERSIONS, shown)


def _trickled(question: Question, settings: dict[str, str], began: float) -> Answer:
    """Files that appear in a folder, and each batch of the query as `foreachBatch` gets it."""
    trickled = trickle.Trickle(question.batches)
    send = trickle.drop_parquet(question.work / "items")

    def note(rows: DataFrame, batch: int) -> None:  # noqa: ARG001
        for row in rows.collect():
            trickled.note(row.k, row.n)

    with session(settings) as spark:
        result = _query(spark, question, question.work).writeStream.outputMode("update")
        query = result.option("checkpointLocation", str(question.work / "checkpoint")).foreachBatch(note).start()
        milliseconds = trickled.run(send)
        query.stop()
    taken = sum(milliseconds) / 1000
    start_seconds = time.monotonic() - began - taken
    return Answer(pa.table({}), taken, start_seconds, VERSIONS, settings, milliseconds=milliseconds)


def _query(spark: SparkSession, question: Question, source: Path) -> DataFrame:
    for name, topic in question.topics.items():
        rows = stream(spark, topic, source / name, FILES_PER_BATCH)
        if topic.key is None:
            rows.createOrReplaceTempView(name)
        else:
            rows.createOrReplaceTempView(f"{name}_changes")
            spark.sql(_newest(name, topic)).createOrReplaceTempView(name)
    return spark.sql(question.sql)


def _newest(name: str, topic: Topic) -> str:
    """The newest row per key as Spark can stream it: an aggregate. It refuses row_number() at once."""
    others = [column for column in topic.columns if column != topic.key]
    kept = ", ".join(f"newest.{column}" for column in others)
    row = f"max_by(struct({', '.join(others)}, deleted), seq) AS newest"
    return (
        f"SELECT {topic.key}, {kept} FROM (SELECT {topic.key}, {row} "
        f"FROM {name}_changes GROUP BY {topic.key}) WHERE NOT newest.deleted"
    )


def _view(folder: Path) -> pa.Table:
    """The newest rows of all groups; the group is the first column of every line that gets so far."""
    rows = ds.dataset(folder, partitioning="hive").to_table()
    return newest(rows, rows.column_names[0], "batch")


if __name__ == "__main__":
    main(run)

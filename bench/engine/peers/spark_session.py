"""A Spark session for the lines that Spark's own streaming takes, and what its two scripts share."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from pyspark import __version__
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from bench.engine.peers.answering import CORES, CanNot, Question, Topic

VERSIONS = {"pyspark": __version__}
ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
SETTINGS = {
    "spark.driver.memory": "6g",
    "spark.sql.shuffle.partitions": str(CORES),
    "spark.python.unix.domain.socket.enabled": "true",
}
QUIET = {"spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false"}
TYPES = {"bigint": "bigint", "string": "string"}


@contextlib.contextmanager
def session(settings: dict[str, str]) -> Iterator[SparkSession]:
    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder.master(f"local[{CORES}]").appName("peer")
    for name, value in {**settings, **QUIET}.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    try:
        yield spark
    finally:
        spark.stop()


def timed(question: Question, job: Callable[[Path, Path], None]) -> float:
    """Runs a job over the few rows to warm up, and then over the input; how long the second took."""
    try:
        job(question.warm, question.work / "warm")
        began = time.monotonic()
        job(question.source, question.work / "run")
    except PySparkException as error:
        raise CanNot(error.getMessage() or str(error)) from error
    return time.monotonic() - began


def stream(spark: SparkSession, topic: Topic, folder: Path, files: int) -> DataFrame:
    """The rows of a topic, some files at a time, with `deleted` if it has a key, and `seq`."""
    columns = [f"`{column}` {TYPES[kind]}" for column, kind in topic.columns.items()]
    schema = ", ".join([*columns, *(["deleted boolean"] if topic.key else []), "seq bigint"])
    return spark.readStream.schema(schema).option("maxFilesPerTrigger", files).parquet(str(folder))


def drain(result: DataFrame, folder: Path) -> None:
    """Runs a query until nothing is left to read; the rows of batch n are written to `rows/batch=n`."""

    def write(rows: DataFrame, batch: int) -> None:
        rows.write.parquet(str(folder / "rows" / f"batch={batch}"))

    query = result.writeStream.outputMode("update").option("checkpointLocation", str(folder / "checkpoint"))
    query.foreachBatch(write).trigger(availableNow=True).start().awaitTermination()

"""The Spark session that a pipeline plans and runs in."""

from __future__ import annotations

import os
import sys

from pyspark.sql import SparkSession

_SETTINGS = {
    "spark.log.level": "ERROR",
    "spark.locality.wait": "0",
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.ansi.enabled": "true",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "200000",
    "spark.sql.legacy.allowHashOnMapType": "true",
    "spark.sql.optimizer.runtime.bloomFilter.enabled": "false",
    "spark.sql.optimizer.windowGroupLimitThreshold": "-1",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "2",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}


def start_session(master: str = "local[*]", **settings: str) -> SparkSession:
    """The session of this process, started if there is none. `settings` are Spark's, with `__` for a dot."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.master(master).appName("headwater")
    for name, value in {**_SETTINGS, **{name.replace("__", "."): value for name, value in settings.items()}}.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    return session

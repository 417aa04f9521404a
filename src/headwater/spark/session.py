"""The Spark session that a pipeline plans and runs in."""

from __future__ import annotations

import logging
import os
import sys
import threading
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from py4j.java_gateway import JavaGateway
from py4j.protocol import Py4JError
from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkRuntimeError
from pyspark.java_gateway import launch_gateway
from pyspark.logger import PySparkLogger
from pyspark.sql import SparkSession

from headwater.engine.sparkplace import SparkPlace
from headwater.errors import SparkNotStarted, UsageError
from headwater.spark.archive import archive_options
from headwater.spark.names import keep_names
from headwater.spark.noise import RaisedAnyway, Told
from headwater.spark.shipping import ship

_LOGGING = Path(__file__).with_name("log4j2.properties")
# Arrow checks every access to its memory otherwise, which takes a tenth of the time of a large batch. And what Java
# mostly does is to hand on large pieces of bytes, for which the collector that stops the program takes the least time.
_JAVA = "-Darrow.enable_unsafe_memory_access=true -Darrow.enable_null_check_for_get=false -XX:+UseParallelGC"
JAVA_HEAP = "1g"
"""What Java may hold of objects, unless the environment says otherwise (`SPARK_DRIVER_MEMORY`).

Java uses what it is given before it collects garbage thoroughly. With 22 views less than 100 MiB of it are alive.
"""
RETAINED = "10"
"""Jobs, stages and queries that Spark remembers for its web pages, which are switched off; by default 1,000 each."""
# Java's slow compiler waits for ten times as many calls: most of what it compiles while Spark starts runs some thousand
# times and never again, and what computes expressions is called once per row.
_COMPILING = (
    "-XX:Tier4InvocationThreshold=50000 -XX:Tier4MinInvocationThreshold=6000 -XX:Tier4CompileThreshold=150000"
    " -XX:Tier4BackEdgeThreshold=400000"
)
_EXCLUDED_RULES = (
    # It fails on a correlated subquery in the projection of a union.
    "org.apache.spark.sql.catalyst.optimizer.PushProjectionThroughUnion",
    # It puts a window below another one, and leaves behind the sort that settles the order of its rows.
    "org.apache.spark.sql.catalyst.optimizer.TransposeWindow",
    # It makes subqueries of aggregates that can be kept up to date as they are.
    "org.apache.spark.sql.execution.planmerging.MergeSubplans",
)
ASOF_JOIN = "spark.sql.join.asofJoin.enabled"
"""The setting by which Spark's parser knows ASOF JOIN."""
_JAVA_OPTIONS = "spark.driver.extraJavaOptions"
_SETTINGS = {
    _JAVA_OPTIONS: f"-Dlog4j2.configurationFile={_LOGGING.as_uri()} {_JAVA} {_COMPILING}",
    "spark.executor.extraJavaOptions": _JAVA,
    # Arrow has an allocator that starts a thread, and what has threads cannot be forked.
    "spark.executorEnv.JE_ARROW_MALLOC_CONF": "background_thread:false",
    "spark.locality.wait": "0",
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.ansi.enabled": "true",
    # Java runs methods that are longer than this without compiling them; Spark then cuts them up.
    "spark.sql.codegen.hugeMethodLimit": "8000",
    # Expressions as text are compared, so they must be whole.
    "spark.sql.debug.maxToStringFields": "100000",
    # Parcels are long, so batches of them are cut by their bytes.
    "spark.sql.execution.arrow.maxBytesPerBatch": "32m",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "200000",
    # Off by default, and part of what views are written in.
    ASOF_JOIN: "true",
    "spark.sql.legacy.allowHashOnMapType": "true",
    "spark.sql.optimizer.excludedRules": ",".join(_EXCLUDED_RULES),
    "spark.sql.optimizer.runtime.bloomFilter.enabled": "false",
    "spark.sql.optimizer.windowGroupLimitThreshold": "-1",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "2",
    "spark.ui.enabled": "false",
    "spark.ui.retainedJobs": RETAINED,
    "spark.ui.retainedStages": RETAINED,
    "spark.ui.showConsoleProgress": "false",
}
_STATIC_SETTINGS = {
    # Each view has its own code, and classes that do not fit are compiled again in every batch.
    "spark.sql.codegen.cache.maxEntries": "1000",
    "spark.sql.ui.retainedExecutions": RETAINED,
}
"""Settings that all sessions of a Java virtual machine share."""
SQL_SETTINGS = tuple(name for name in _SETTINGS if name.startswith("spark.sql."))
"""The settings of headwater's sessions that say how SQL is planned and run."""
PACKAGES = Path(__file__).parents[2]
"""Where this package was imported from."""
_OURS = "spark.headwater.started"
# Loggers that repeat on standard error what PySpark raises anyway.
_LOGGERS = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")
_turn = threading.Lock()


def start_session(master: str = "local[*]", java: str | None = None, **settings: str) -> SparkSession:
    """The session of this process, started if there is none. `settings` are Spark's, with `__` for a dot.

    `java` are more options of the virtual machine: otherwise those by which it uses the class archive. A thread that
    comes while another one starts the session waits for it.
    """
    with _turn:
        return _session(master, java, settings)


def _session(master: str, java: str | None, settings: Mapping[str, str]) -> SparkSession:
    # Spark itself looks at this setting only in programs that `spark-submit` starts.
    os.environ.setdefault("PYSPARK_PYTHON", settings.get("spark__pyspark__python", sys.executable))
    # It logs by the logger of everybody.
    root = logging.getLogger()
    if not any(isinstance(known, RaisedAnyway) for known in root.filters):
        root.addFilter(RaisedAnyway())
    for logger in _LOGGERS:
        PySparkLogger.getLogger(logger).setLevel(logging.CRITICAL)
    heap = os.environ.get("SPARK_DRIVER_MEMORY", JAVA_HEAP)
    asked = {name.replace("__", "."): value for name, value in settings.items()}
    chosen = {**_STATIC_SETTINGS, **_SETTINGS, "spark.driver.memory": heap, **asked}
    if SparkSession.getActiveSession() is None and SparkContext._active_spark_context is None:  # noqa: SLF001
        if master.startswith("local"):
            # Elsewhere it need not be installed before Spark brings it.
            chosen["spark.python.daemon.module"] = "headwater.spark.daemon"
            chosen.setdefault("spark.executorEnv.PYTHONPATH", str(PACKAGES))
        more = archive_options() if java is None else java
        chosen[_JAVA_OPTIONS] = f"{chosen[_JAVA_OPTIONS]} {more}"
        chosen[_OURS] = "true"
        conf = SparkConf().setMaster(master).setAppName("headwater").setAll(list(chosen.items()))
        context: Any = SparkContext(conf=conf, gateway=_gateway(conf))
        # It prints a stack trace when Java is gone, which others notice and tell.
        context._accumulatorServer.handle_error = lambda *_: None  # noqa: SLF001
        if not master.startswith("local"):
            ship(context)
    builder = SparkSession.builder.master(master).appName("headwater")
    for name, value in chosen.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    return session


def session_at(place: SparkPlace) -> SparkSession:
    """The session that an application runs in: the caller's, which must be one of a Spark in this process, or ours."""
    session = place.session
    if session is None:
        return start_session(place.master, **{name.replace(".", "__"): value for name, value in place.conf.items()})
    if not isinstance(session, SparkSession):
        raise UsageError(
            f"Views run in a SparkSession of this process, not in {type(session).__module__}.{type(session).__name__}.",
            hint="Use SparkSession.builder.master(...).getOrCreate(), or leave spark= out.",
        )
    context: Any = session.sparkContext
    if context.master.startswith("local"):
        # Workers are processes of this machine: they import what this one does.
        if "PYSPARK_PYTHON" not in os.environ:
            context.pythonExec = sys.executable
        context.environment.setdefault("PYTHONPATH", str(PACKAGES))
    return session


def own_session(session: SparkSession) -> SparkSession:
    """Another session of the same Spark, with headwater's settings; those of the given one stay as they are."""
    made = session.newSession()
    if session.sparkContext.getConf().get(_OURS) is None:
        for name in SQL_SETTINGS:
            made.conf.set(name, _SETTINGS[name])
    return made


def forget_session() -> None:
    """Forgets the session of a Java virtual machine that is gone, so that the next one starts another."""
    context, gateway = SparkContext._active_spark_context, SparkContext._gateway  # noqa: SLF001
    SparkSession._instantiatedSession = None  # noqa: SLF001
    SparkSession._activeSession = None  # noqa: SLF001
    if context is not None:
        # There is nobody left to tell.
        context._jsc = None  # noqa: SLF001
        context.stop()
    if gateway is not None:
        with suppress(Py4JError, OSError):
            gateway.shutdown()
    SparkContext._gateway = SparkContext._jvm = None  # noqa: SLF001


def _gateway(conf: SparkConf) -> JavaGateway | None:
    """A virtual machine for Spark, whose standard error is passed on without noise; None if there is one already."""
    if SparkContext._gateway is not None:  # noqa: SLF001
        return None
    reading, writing = os.pipe()
    told = Told(reading)
    try:
        gateway: JavaGateway = launch_gateway(conf, {"stderr": writing})  # type: ignore[no-untyped-call]
    except (PySparkRuntimeError, OSError) as error:
        os.close(writing)
        raise SparkNotStarted(told.all() or str(error)) from error
    os.close(writing)
    told.pass_on()
    keep_names(gateway)
    return gateway

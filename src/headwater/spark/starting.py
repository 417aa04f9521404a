"""Starts Spark beside what a program does meanwhile: importing, opening the log, capturing, serving."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import suppress

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from headwater.engine.sparkplace import SparkPlace
from headwater.spark.archive import make_archive
from headwater.spark.numbering import planning
from headwater.spark.session import session_at


def start_beside(place: SparkPlace) -> None:
    """Starts Spark and its workers in a thread; `session_at` waits for it, or tries again and tells why it fails."""
    threading.Thread(target=_start, args=(place,), name="Spark's start", daemon=True).start()


def _start(place: SparkPlace) -> None:
    # The next caller that needs Spark tries again, and gets the error.
    with suppress(Exception):
        _start_workers(session_at(place))
        _kept.append(make_archive())


_kept: list[object] = []
"""The process that makes the archive ends when it is forgotten, because its standard input does."""


def _start_workers(session: SparkSession) -> None:
    """It takes a second to start the first, in which views can be planned."""
    planned_job(session).collect()


def planned_job(session: SparkSession) -> DataFrame:
    """A job for a worker that has nothing to do. Running it takes no ids, so views can be planned beside it."""
    with planning:
        frame = session.range(1).mapInArrow(_unchanged, "id long")
        frame._jdf.queryExecution().executedPlan()  # noqa: SLF001
    return frame


def _unchanged(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield from batches

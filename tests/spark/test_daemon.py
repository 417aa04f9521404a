"""Spark's Python workers are forked from a process that has imported what they need, and has no threads."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def told(given: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """What a worker sees of its parent."""
    for _ in given:
        pass
    parent = Path(f"/proc/{os.getppid()}")
    threads = len(list((parent / "task").iterdir()))
    words = (parent / "cmdline").read_bytes().decode().split("\0")
    zips = sum("pyspark.zip" in name for name in sys.path_importer_cache)
    yield pa.RecordBatch.from_pydict({"threads": [threads], "words": [" ".join(words)], "zips": [zips]})


def test_workers_come_from_a_daemon_without_threads(spark: SparkSession) -> None:
    (row,) = spark.range(0, 1, 1, 1).mapInArrow(told, "threads bigint, words string, zips bigint").collect()
    assert "headwater.spark.daemon" in row["words"]
    assert row["threads"] == 1
    assert row["zips"] == 0, "reading their directories takes half a second"

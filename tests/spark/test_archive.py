"""The class archive, made and used by a real Java, and what forks Spark's workers."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

MAKE = [sys.executable, "-P", "-m", "headwater.spark.archiving"]
USE = """
from headwater.spark.session import start_session
session = start_session("local[1]")
print(session.range(3).count())
options = session._jvm.java.lang.management.ManagementFactory.getRuntimeMXBean().getInputArguments()
print(sum("SharedArchiveFile" in option for option in options))
"""


def _run(command: list[str], cache: Path) -> str:
    environment = {**os.environ, "XDG_CACHE_HOME": str(cache)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return done.stdout


@pytest.mark.timeout(900)
@pytest.mark.spark
def test_an_archive_is_made_once_and_damage_is_ignored(tmp_path: Path) -> None:
    cache = tmp_path / "a cache"
    _run(MAKE, cache)
    (path,) = (cache / "headwater").glob("*.jsa")
    before = path.stat()
    assert before.st_size > 0
    _run(MAKE, cache)
    assert path.stat().st_ino == before.st_ino, "it is not made again"
    assert not list((cache / "headwater").glob("*.made"))
    assert _run([sys.executable, "-c", USE], cache).split() == ["3", "1"]
    path.chmod(0o600)
    with path.open("r+b") as file:
        for place in range(before.st_size // 4, before.st_size, 100_000):
            file.seek(place)
            file.write(b"\xff" * 100)
    assert _run([sys.executable, "-c", USE], cache).split() == ["3", "1"], "Java says nothing, and does without"


def _about_the_daemon(_: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    names = [path.read_text().strip() for path in Path(f"/proc/{os.getppid()}/task").glob("*/comm")]
    # The allocator's own thread, which does nothing until it is asked and is known to fork safely.
    threads = [name for name in names if not name.startswith("jemalloc")]
    zips = [name for name in sys.path_importer_cache if "pyspark.zip" in name]
    yield pa.RecordBatch.from_pylist([{"threads": len(threads), "zips": len(zips)}])


def test_what_forks_workers_has_no_threads(spark: SparkSession) -> None:
    frame = spark.range(0, 1, 1, 1).mapInArrow(_about_the_daemon, "threads long, zips long")
    assert [tuple(row) for row in frame.collect()] == [(1, 0)]

"""Views over archived topics: built, rebuilt and verified from the archive, and retried while it does not answer."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import headwater as hw
from headwater.errors import ArchiveUnavailable
from headwater.log.embedded.cache import FOLDER

SQL = "SELECT id % 7 AS kind, count(*) AS records, sum(amount) AS amount FROM orders GROUP BY 1"


def application(directory: Path, archive: Path, spark: SparkSession) -> hw.App:
    app = hw.App("shop", log=str(directory), spark=spark)
    app.topic("orders", "id bigint, amount bigint", key="id", archive=archive, retention_bytes=1)
    app.view("kinds", SQL)
    return app


def test_views_are_built_from_an_archive(spark: SparkSession, tmp_path: Path) -> None:
    app = application(tmp_path / "log", tmp_path / "archive", spark)
    log = app.log
    for part in range(3):
        log.append("orders", [{"id": n, "amount": part} for n in range(part * 100, part * 100 + 150)])
        log.maintenance.seal("orders")
    log.maintenance.upkeep()
    assert list((tmp_path / "log" / "topics").rglob("*.parquet")) == []
    app.catch_up()
    assert app.read("kinds").num_rows == 7
    assert app.verify("kinds").equal
    app.close()
    # Everything is forgotten but the log: the views are built again, from the archive.
    for folder in ("pipelines", FOLDER):
        shutil.rmtree(tmp_path / "log" / folder)
    (tmp_path / "archive").rename(tmp_path / "away")
    again = application(tmp_path / "log", tmp_path / "archive", spark)
    with pytest.raises(ArchiveUnavailable):
        again.catch_up()
    (tmp_path / "away").rename(tmp_path / "archive")
    again.catch_up()
    assert sum(row["records"] for row in again.read("kinds").to_pylist()) == 350
    assert again.verify("kinds").equal
    again.close()

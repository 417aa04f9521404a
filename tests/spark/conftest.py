"""The one Spark session that all tests in this folder share."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.spark)
            item.add_marker(pytest.mark.filterwarnings("ignore::DeprecationWarning:pyspark"))
            item.add_marker(pytest.mark.filterwarnings("ignore::FutureWarning:pyspark"))


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """A local Spark of two cores, in UTC, that talks to nothing but this machine."""
    if not os.environ.get("JAVA_HOME") and shutil.which("java") is None:
        pytest.fail("Spark needs Java 17 or newer; `tools/setup` says how to get it")
    settings: dict[str, bool | float | int | str | None] = {
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.local.dir": str(tmp_path_factory.mktemp("spark-local")),
        "spark.log.level": "ERROR",
        "spark.pyspark.python": sys.executable,
        "spark.python.unix.domain.socket.enabled": "true",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.warehouse.dir": str(tmp_path_factory.mktemp("spark-warehouse")),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }
    session = SparkSession.builder.master("local[2]").appName("headwater-tests").config(map=settings).getOrCreate()
    yield session
    session.stop()

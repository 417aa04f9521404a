"""What all tests share: profiles of hypothesis, and one Spark session.

The profile `dev` looks for new failures, `thorough` for hours, `ci` gives the same answer each time.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings
from pyspark.sql import SparkSession

from headwater.spark.session import start_session

settings.register_profile(
    "dev", deadline=None, print_blob=True, max_examples=100, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile("thorough", settings.get_profile("dev"), max_examples=10_000)
settings.register_profile("ci", settings.get_profile("dev"), derandomize=True, max_examples=50, database=None)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "dev"))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What uses the Spark session starts a JVM; what uses a server waits for it."""
    for item in items:
        if "server" in getattr(item, "fixturenames", ()) and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(900))
        if "spark" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.spark)
            if item.get_closest_marker("timeout") is None:
                item.add_marker(pytest.mark.timeout(600))
            item.add_marker(pytest.mark.filterwarnings("ignore::DeprecationWarning:pyspark"))
            item.add_marker(pytest.mark.filterwarnings("ignore::FutureWarning:pyspark"))


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """A local Spark of two cores, in UTC, that talks to nothing but this machine."""
    if not os.environ.get("JAVA_HOME") and shutil.which("java") is None:
        pytest.fail("Spark needs Java 17 or newer; `tools/setup` says how to get it")
    session = start_session(
        "local[2]",
        spark__driver__bindAddress="127.0.0.1",
        spark__driver__host="127.0.0.1",
        spark__local__dir=str(tmp_path_factory.mktemp("spark-local")),
        spark__sql__warehouse__dir=str(tmp_path_factory.mktemp("spark-warehouse")),
    )
    yield session
    session.stop()

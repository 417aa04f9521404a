"""What all tests share: profiles of hypothesis, one Spark session per worker, and how tests are divided among workers.

The profile `dev` looks for new failures, `thorough` for hours, `ci` gives the same answer each time.
"""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from pyspark.sql import SparkSession
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling

from headwater.spark.session import start_session
from headwater.testing.kafka import KafkaCluster, fetch, running

TESTS = Path(__file__).parent

settings.register_profile(
    "dev", deadline=None, print_blob=True, max_examples=100, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile("thorough", settings.get_profile("dev"), max_examples=10_000)
settings.register_profile("ci", settings.get_profile("dev"), derandomize=True, max_examples=50, database=None)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "dev"))

# What a shell starts in the background ignores Ctrl-C, and so would all processes that tests start and interrupt.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Java compiles for short runs, here and in all processes that tests start: compiling took half of the processor time.
# Without the slow compiler, Java reserves 48 MiB for what it compiles, of which the cases of two files fill 42: then it
# throws code away and compiles it again. With 240 MiB, as with both compilers, all of a run fits.
os.environ.setdefault("SPARK_SUBMIT_OPTS", "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m")
INTERPRETED = {"spark__sql__codegen__wholeStage": "false", "spark__sql__codegen__factoryMode": "NO_CODEGEN"}
"""Each test has its own plans, which Spark would compile for a few rows. `make matrix`, some rounds of the fuzzer,
and whatever runs in its own process let Spark compile, as it does for users."""

LONGEST_FIRST = ("torture", "e2e", "matrix", "postgres", "spark", "sql")
"""Folders whose tests take the longest; begun first, none of them is left for one worker at the end."""
SQL_CASES = "sql/test_cases.py"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What uses the Spark session starts a JVM; what uses a server waits for it."""
    items.sort(key=_turn)
    for item in items:
        if "server" in getattr(item, "fixturenames", ()) and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(900))
        if "spark" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.spark)
            if item.get_closest_marker("timeout") is None:
                item.add_marker(pytest.mark.timeout(600))
            item.add_marker(pytest.mark.filterwarnings("ignore::DeprecationWarning:pyspark"))
            item.add_marker(pytest.mark.filterwarnings("ignore::FutureWarning:pyspark"))


def _turn(item: pytest.Item) -> int:
    folder = item.path.relative_to(TESTS).parts[0]
    return LONGEST_FIRST.index(folder) if folder in LONGEST_FIRST else len(LONGEST_FIRST)


class _Files(LoadScopeScheduling):  # type: ignore[misc]
    """Gives a worker one file of tests after the other; of the case files of SQL, one of those."""

    def _split_scope(self, nodeid: str) -> str:
        path, _, test = nodeid.partition("::")
        parameters = test.partition("[")[2].rstrip("]")
        return f"{path} {parameters.partition('-')[0]}" if path.endswith(SQL_CASES) else path


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> LoadScopeScheduling:
    """How tests are divided among workers: what shares fixtures stays together."""
    return _Files(config, log)


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
        **INTERPRETED,
    )
    yield session
    session.stop()


@pytest.fixture(scope="session")
def kafka_cluster() -> Iterator[KafkaCluster]:
    """An Apache Kafka of one node, for all tests of a worker."""
    try:
        fetch()
    except LookupError as reason:
        pytest.skip(f"KAFKA IS NOT TESTED: {reason}")
    with running() as cluster:
        yield cluster

"""A pipeline on a Spark cluster gives the same views, also when tasks fail, hang, or lose their worker."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.spark.attempts_driver import BATCHES, FAILS, HANGS
from tests.spark.cluster import Cluster, spark_cluster
from tests.spark.test_pipeline import shop, trade

ROOT = Path(__file__).parents[2]
SPECULATION = {
    "spark.speculation": "true",
    "spark.speculation.interval": "100ms",
    "spark.speculation.minTaskRuntime": "500ms",
    "spark.speculation.quantile": "0.5",
}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """One cluster for all tests; the last of them kills a worker."""
    with spark_cluster(tmp_path_factory.mktemp("cluster")) as started:
        yield started


@pytest.mark.timeout(600)
def test_a_second_attempt_of_a_task_counts_once(tmp_path: Path, cluster: Cluster) -> None:
    """A task that fails and is tried again, and one that hangs and is overtaken by a copy."""
    options = " ".join(f"--conf {name}={value}" for name, value in SPECULATION.items())
    run = subprocess.run(
        [sys.executable, "-m", "tests.spark.attempts_driver", cluster.master, str(tmp_path)],
        stdout=subprocess.PIPE, text=True, cwd=ROOT, check=True,
        env={**os.environ, "PYSPARK_SUBMIT_ARGS": f"{options} pyspark-shell"},
    )  # fmt: skip
    assert run.stdout.splitlines() == [f"batch {number} {expected(number)}" for number in range(BATCHES)]
    for number in (FAILS, HANGS):
        assert list(tmp_path.glob(f"again-{number}-[1-9]")), f"no second attempt in batch {number}"


def expected(last: int) -> list[dict[str, int]]:
    counts = [len(range(rest, 40, 3)) for rest in range(3)]
    total = sum(range(last + 1))
    return [{"rest": rest, "n": n * (last + 1), "total": n * total} for rest, n in enumerate(counts)]


@pytest.mark.timeout(600)
def test_a_cluster_gives_the_same_views_with_a_worker_killed(
    tmp_path: Path, cluster: Cluster, spark: SparkSession
) -> None:
    seen = []
    with subprocess.Popen(
        [sys.executable, "-m", "tests.spark.cluster_driver", cluster.master, str(tmp_path / "cluster")],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT,
    ) as driver:  # fmt: skip
        assert driver.stdin is not None
        assert driver.stdout is not None
        for line in driver.stdout:
            seen.append(line.strip())
            if len(seen) == 3:
                cluster.kill_worker()
            driver.stdin.write("\n")
            driver.stdin.flush()
        assert driver.wait() == 0
    assert seen == [f"batch {number} equal" for number in range(8)]
    with shop(tmp_path / "local") as local, shop(tmp_path / "cluster") as remote:
        dice = random.Random(11)
        for _ in range(8):
            trade(local, dice, 4)
        local.catch_up()
        for view in local.views:
            rows = [sorted(map(repr, app.read(view).to_pylist())) for app in (local, remote)]
            assert rows[0] == rows[1]

"""The same pipeline on a Spark cluster gives the same views, also when a worker is killed in the middle."""

from __future__ import annotations

import random
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.spark.cluster import spark_cluster
from tests.spark.test_pipeline import shop, trade

ROOT = Path(__file__).parents[2]


@pytest.mark.timeout(600)
def test_a_cluster_gives_the_same_views_with_a_worker_killed(tmp_path: Path, spark: SparkSession) -> None:
    seen = []
    with (
        spark_cluster(tmp_path) as cluster,
        subprocess.Popen(
            [sys.executable, "-m", "tests.spark.cluster_driver", cluster.master, str(tmp_path / "cluster")],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT,
        ) as driver,
    ):  # fmt: skip
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

"""A task that fails and is tried again, and one that hangs and is overtaken by a copy, count once."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.spark.attempts_driver import BATCHES, FAILS, HANGS
from tests.spark.cluster import spark_cluster

ROOT = Path(__file__).parents[2]
SPECULATION = {
    "spark.speculation": "true",
    "spark.speculation.interval": "100ms",
    "spark.speculation.minTaskRuntime": "500ms",
    "spark.speculation.quantile": "0.5",
}


@pytest.mark.timeout(600)
def test_a_second_attempt_of_a_task_counts_once(tmp_path: Path) -> None:
    options = " ".join(f"--conf {name}={value}" for name, value in SPECULATION.items())
    with spark_cluster(tmp_path) as cluster:
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

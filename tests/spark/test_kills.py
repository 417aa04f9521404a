"""A driver that is killed with -9 at any moment, with its JVM and its workers, loses nothing and does nothing twice."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.spark.test_pipeline import shop, trade, verified

ROOT = Path(__file__).parents[2]
KILLS = int(os.environ.get("HEADWATER_KILLS", "2"))


@pytest.mark.timeout(120 * KILLS + 120)
def test_kills_at_any_moment(tmp_path: Path, spark: SparkSession) -> None:
    dice = random.Random(7)
    with shop(tmp_path) as app:
        for _ in range(KILLS):
            trade(app, dice, 60)
            with subprocess.Popen(
                [sys.executable, "-m", "tests.spark.killed_driver", str(tmp_path)],
                stdout=subprocess.PIPE, text=True, cwd=ROOT, start_new_session=True,
            ) as driver:  # fmt: skip
                assert driver.stdout is not None
                for _, line in zip(range(dice.randrange(2, 12)), driver.stdout, strict=False):
                    assert int(line) > 0
                # Somewhere inside the next batch: the moment is what is tried here.
                time.sleep(dice.random() * 0.4)
                os.killpg(driver.pid, signal.SIGKILL)
            app._pipeline = None
            before = app.generations()[-1].batch
            assert before > 0
            assert verified(app), "what was published is right"
        trade(app, dice, 3)
        app.catch_up()
        assert verified(app)


@pytest.mark.timeout(300)
def test_a_driver_whose_jvm_is_killed_says_so(tmp_path: Path) -> None:
    with shop(tmp_path) as app:
        trade(app, random.Random(8), 3)
        with subprocess.Popen(
            [sys.executable, "-m", "tests.spark.killed_driver", str(tmp_path)],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT, start_new_session=True,
        ) as driver:  # fmt: skip
            assert driver.stdout is not None
            assert driver.stderr is not None
            assert int(driver.stdout.readline()) == 1
            (jvm,) = Path(f"/proc/{driver.pid}/task/{driver.pid}/children").read_text().split()
            os.kill(int(jvm), signal.SIGKILL)
            trade(app, random.Random(9), 1)
            assert "SparkStopped" in driver.stderr.read()
        assert driver.returncode == 1

"""A driver that is killed with -9 at any moment, with its JVM and its workers, loses nothing and does nothing twice."""

from __future__ import annotations

import json
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
RUN = "import headwater.cli; headwater.cli.main()"
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


def _children(process: int) -> list[int]:
    found = Path(f"/proc/{process}/task").glob("*/children")
    return [int(child) for path in found for child in path.read_text().split()]


def _named(process: int, words: str) -> list[int]:
    """The processes below one, at any depth, whose command has these words."""
    below = [other for child in _children(process) for other in [child, *_named(child, "")]]
    return [one for one in below if words in Path(f"/proc/{one}/cmdline").read_text().replace("\0", " ")]


@pytest.mark.timeout(400)
def test_a_run_that_loses_a_process_goes_on(tmp_path: Path) -> None:
    """What the kernel ends for lack of memory: a worker in Python, and all of Spark."""
    with (
        shop(tmp_path) as app,
        subprocess.Popen(
            [sys.executable, "-c", RUN, "run", "tests/spark/killed_app.py", "--json", "--no-server"],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT, start_new_session=True,
            env={**os.environ, "SHOP": str(tmp_path)},
        ) as run,
    ):  # fmt: skip
        assert run.stdout is not None
        assert run.stderr is not None
        dice = random.Random(8)
        for words in ("spark.daemon", "java"):
            trade(app, dice, 1)
            while json.loads(run.stdout.readline())["position"] != str(app.log.position()):
                pass
            os.kill(_named(run.pid, words)[-1], signal.SIGKILL)
        trade(app, dice, 1)
        while json.loads(run.stdout.readline())["position"] != str(app.log.position()):
            pass
        run.send_signal(signal.SIGTERM)
        told = run.stderr.read()
        assert run.wait() == 0, told
        assert "Trying again in 0.5 s (1 of 7)." in told
        assert "Traceback" not in told, told
        assert "\tat " not in told
        assert verified(app)

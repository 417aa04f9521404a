"""A run that stands by takes over from one that is killed with -9, whatever was killed meanwhile."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from headwater.app import App
from tests.spark.test_kills import ROOT, RUN, _named
from tests.spark.test_pipeline import shop, trade, verified


@contextmanager
def running(place: Path, *options: str) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-c", RUN, "run", "tests/spark/killed_app.py", "--json", "--no-server", *options]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT, start_new_session=True,
        env={**os.environ, "SHOP": str(place)},
    ) as run:  # fmt: skip
        try:
            yield run
        finally:
            if run.poll() is None:
                os.killpg(run.pid, signal.SIGKILL)


def until_said(run: subprocess.Popen[str], words: str) -> None:
    assert run.stderr is not None
    for line in run.stderr:
        if words in line:
            return
    raise AssertionError(f"it never said {words!r}")


def until_published(run: subprocess.Popen[str], app: App) -> None:
    assert run.stdout is not None
    for line in run.stdout:
        if json.loads(line)["position"] == str(app.log.position()):
            return
    raise AssertionError("it has ended")


@pytest.mark.timeout(600)
@pytest.mark.spark
def test_a_standby_takes_over(tmp_path: Path) -> None:
    dice = random.Random(9)
    with shop(tmp_path) as app, running(tmp_path) as first:
        trade(app, dice, 5)
        until_published(first, app)
        with running(tmp_path, "--standby") as second:
            until_said(second, "Standing by for shop, which process")
            until_said(second, "Ready to take over.")
            os.kill(_named(second.pid, "java")[-1], signal.SIGKILL)
            until_said(second, "Trying again")
            trade(app, dice, 5)
            until_published(first, app)
            assert first.poll() is None, "nobody has fenced it"
            trade(app, dice, 5)
            os.killpg(first.pid, signal.SIGKILL)
            trade(app, dice, 5)
            until_said(second, "Took over after")
            until_published(second, app)
            second.send_signal(signal.SIGTERM)
            assert second.wait() == 0
        assert verified(app)


@pytest.mark.timeout(600)
@pytest.mark.spark
def test_a_second_run_takes_over_only_if_it_is_told_to(tmp_path: Path) -> None:
    dice = random.Random(11)
    with shop(tmp_path) as app, running(tmp_path) as first:
        trade(app, dice, 5)
        until_published(first, app)
        with running(tmp_path) as second:
            assert second.wait() == 5
            assert second.stderr is not None
            assert f"already running: process {first.pid} on " in second.stderr.read()
        trade(app, dice, 5)
        until_published(first, app)
        with running(tmp_path, "--take-over") as third:
            assert first.wait() == 5
            trade(app, dice, 5)
            until_published(third, app)
            third.send_signal(signal.SIGTERM)
            assert third.wait() == 0
        assert verified(app)


@pytest.mark.timeout(600)
@pytest.mark.spark
def test_a_standby_that_is_ended_leaves_the_other_alone(tmp_path: Path) -> None:
    dice = random.Random(10)
    with shop(tmp_path) as app, running(tmp_path) as first:
        trade(app, dice, 5)
        until_published(first, app)
        with running(tmp_path, "--standby") as second:
            until_said(second, "Standing by for shop")
            second.send_signal(signal.SIGINT)
            assert second.wait() == 0
        trade(app, dice, 5)
        until_published(first, app)
        first.send_signal(signal.SIGTERM)
        assert first.wait() == 0

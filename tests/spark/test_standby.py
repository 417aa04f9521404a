"""A run that stands by takes over from one that is killed with -9, whatever was killed meanwhile."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from headwater.app import App
from tests.spark.test_kills import ROOT, RUN, _named
from tests.spark.test_pipeline import shop, trade, verified

pytestmark = [pytest.mark.timeout(600), pytest.mark.spark]

Run = subprocess.Popen[str]


class Runs:
    """The runs of an application. The one that has it serves the next test, too: each takes long to start."""

    def __init__(self, place: Path) -> None:
        self._place = place
        self._all: list[Run] = []
        self.holder: Run | None = None

    def start(self, *options: str) -> Run:
        command = [sys.executable, "-c", RUN, "run", "tests/spark/killed_app.py", "--json", "--no-server", *options]
        run = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT, start_new_session=True,
            env={**os.environ, "SHOP": str(self._place)},
        )  # fmt: skip
        self._all.append(run)
        return run

    def holding(self) -> Run:
        """The run that has the application, started if there is none."""
        if self.holder is None or self.holder.poll() is not None:
            self.holder = self.start()
        return self.holder

    def close(self) -> None:
        for run in self._all:
            if run.poll() is None:
                os.killpg(run.pid, signal.SIGKILL)
            run.communicate()


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("shop")


@pytest.fixture
def app(place: Path) -> Iterator[App]:
    with shop(place) as app:
        yield app


@pytest.fixture(scope="module")
def runs(place: Path) -> Iterator[Runs]:
    started = Runs(place)
    yield started
    started.close()


def until_said(run: Run, words: str) -> None:
    assert run.stderr is not None
    for line in run.stderr:
        if words in line:
            return
    raise AssertionError(f"it never said {words!r}")


def until_published(run: Run, app: App) -> None:
    assert run.stdout is not None
    for line in run.stdout:
        if json.loads(line)["position"] == str(app.log.position()):
            return
    raise AssertionError("it has ended")


def test_a_standby_that_is_ended_leaves_the_other_alone(app: App, runs: Runs) -> None:
    dice, first = random.Random(10), runs.holding()
    trade(app, dice, 5)
    until_published(first, app)
    second = runs.start("--standby")
    until_said(second, "Standing by for shop")
    second.send_signal(signal.SIGINT)
    assert second.wait() == 0
    trade(app, dice, 5)
    until_published(first, app)


def test_a_second_run_takes_over_only_if_it_is_told_to(app: App, runs: Runs) -> None:
    dice, first = random.Random(11), runs.holding()
    trade(app, dice, 5)
    until_published(first, app)
    second = runs.start()
    assert second.wait() == 5
    assert second.stderr is not None
    assert f"already running: process {first.pid} on " in second.stderr.read()
    trade(app, dice, 5)
    until_published(first, app)
    third = runs.start("--take-over")
    assert first.wait() == 5
    runs.holder = third
    trade(app, dice, 5)
    until_published(third, app)
    assert verified(app)


def test_a_standby_takes_over(app: App, runs: Runs) -> None:
    dice, first = random.Random(9), runs.holding()
    trade(app, dice, 5)
    until_published(first, app)
    second = runs.start("--standby")
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
    runs.holder = second
    assert verified(app)


def test_a_run_ends_when_it_is_told_to(app: App, runs: Runs) -> None:
    first = runs.holding()
    trade(app, random.Random(12), 1)
    until_published(first, app)
    first.send_signal(signal.SIGTERM)
    assert first.wait() == 0
    assert verified(app)

"""From a commit in the log to the row that a reader of the target sees, at 1,000 changes a second."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa

from bench.report import Line
from bench.sinks.outside import MARKER, Outside
from bench.timing import percentile
from headwater.app import App

RATE, COMMITS = 1000, 10
"""Changes a second, and in how many commits."""
KEYS = 10_000
WARM_SECONDS = 5.0
GOAL = 1000.0


def measure(outside: Outside, place: Path, seconds: float) -> Iterator[Line]:
    """p50 and p99, with Spark, the log, the target and the reader on this machine."""
    times = _times(outside, place, seconds)
    note = f"{len(times)} commits of {RATE // COMMITS} changes, {COMMITS} a second"
    yield Line(f"{outside.name}: commit to visible, p50", 1e3 * percentile(times, 0.5), "ms", better="less", note=note)
    yield Line(f"{outside.name}: commit to visible, p99", 1e3 * percentile(times, 0.99), "ms", GOAL, "less")


def _times(outside: Outside, place: Path, seconds: float) -> list[float]:
    with App("bench", log=place / "latency") as app:
        app.topic("rows", "key bigint, text string", key="key")
        app.view("v", "SELECT key, text FROM rows")
        app.sink("out", view="v", key="key", to=outside.target(99))
        app.log.append("rows", _commit(0))
        run = threading.Thread(target=app.run, daemon=True)
        run.start()
        _until_shown(outside, 0)
        committed: list[float] = []
        total = int((WARM_SECONDS + seconds) * COMMITS)
        shown = _Watch(outside, total)
        began = time.monotonic()
        for number in range(total):
            time.sleep(max(0.0, began + number / COMMITS - time.monotonic()))
            app.log.append("rows", _commit(number + 1))
            committed.append(time.monotonic())
        seen = shown.wait()
        app.stop()
        run.join()
    taken = [at - before for at, before in zip(seen, committed, strict=True)]
    return taken[int(WARM_SECONDS * COMMITS) :]


def _commit(number: int) -> pa.Table:
    keys = np.random.default_rng(number).integers(1, KEYS, RATE // COMMITS)
    keys[0] = MARKER
    return pa.table({"key": pa.array(keys), "text": pa.array([str(number)] * len(keys))})


def _until_shown(outside: Outside, number: int) -> None:
    deadline = time.monotonic() + 180
    while outside.marker(99) != str(number):
        assert time.monotonic() < deadline, "the first content does not arrive"
        time.sleep(0.05)


class _Watch:
    """Reads the target all the time, in a thread; when each commit was seen."""

    def __init__(self, outside: Outside, commits: int) -> None:
        self._outside, self._commits = outside, commits
        self._seen: list[float] = []
        self._thread = threading.Thread(target=self._look, daemon=True)
        self._thread.start()

    def wait(self) -> list[float]:
        self._thread.join(120)
        assert len(self._seen) >= self._commits, f"{len(self._seen)} of {self._commits} commits were seen"
        return self._seen

    def _look(self) -> None:
        while len(self._seen) < self._commits:
            newest = int(self._outside.marker(99) or 0)
            now = time.monotonic()
            self._seen += [now] * (newest - len(self._seen))
            time.sleep(0.003)

"""From a commit in the log to the published view: small batches, one after the other."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa

from bench.report import Line
from headwater.app import App
from headwater.engine.pipeline import Progress
from headwater.model.position import Position

CHANGES = 100
WARM_BATCHES = 15
GOALS = {1: 180.0, 8: 250.0, 32: 500.0}
"""Milliseconds for the median, by the number of views."""


class Watched:
    """An application that runs in a thread, and when it has published what."""

    def __init__(self, app: App) -> None:
        self._app, self._moved = app, threading.Condition()
        self._reached: Position | None = None
        self._at = 0.0
        self._thread = threading.Thread(target=lambda: app.run(self._note), daemon=True)
        self._thread.start()

    def wait(self, position: Position) -> float:
        """When a position was published."""
        with self._moved:
            self._moved.wait_for(lambda: self._reached is not None and self._reached >= position)
            return self._at

    def stop(self) -> None:
        self._app.stop()
        self._thread.join()

    def _note(self, progress: Progress) -> None:
        with self._moved:
            self._reached, self._at = progress.position, time.monotonic()
            self._moved.notify_all()


def measure(directory: Path, batches: int) -> Iterator[Line]:
    """Medians and tails for 1, 8 and 32 views."""
    for views, goal in GOALS.items():
        times = _times(directory / str(views), views, batches)
        median, tail = (float(np.percentile(times, part)) for part in (50, 99))
        stages = "one stage" if views == 1 else "two stages"
        yield Line(
            f"{CHANGES} changes to {views} {'view' if views == 1 else 'views'} of {stages}, median",
            median, "ms", goal, "less", note=f"p99 {tail:,.0f} ms, {batches} batches",
        )  # fmt: skip


def _times(directory: Path, views: int, batches: int) -> list[float]:
    dice = np.random.default_rng(views)
    with App("latency", log=directory / "log") as app:
        app.topic("items", "id bigint, k bigint, v bigint", key=None if views == 1 else "id")
        for number in range(views):
            app.view(f"v{number}", f"SELECT k % {number + 5} AS k, count(*) AS n, sum(v) AS v FROM items GROUP BY 1")
        watched = Watched(app)
        times = []
        for number in range(WARM_BATCHES + batches):
            rows = {
                "id": dice.integers(0, 100_000, CHANGES), "k": dice.integers(0, 1000, CHANGES),
                "v": dice.integers(0, 9, CHANGES),
            }  # fmt: skip
            position = app.log.append("items", pa.table(rows))
            committed = time.monotonic()
            published = watched.wait(position)
            if number >= WARM_BATCHES:
                times.append((published - committed) * 1000)
        watched.stop()
        return times

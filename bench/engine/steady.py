"""Freshness under a steady load: how old a change is when the views have it."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from bench.report import Line
from headwater.app import App
from headwater.engine.pipeline import Progress
from headwater.log.embedded.position import commit_of
from headwater.model.position import Position

RATES = (1_000, 10_000)
"""Changes a second."""
VIEWS = 8
COMMITS_PER_SECOND = 20
WARM_SECONDS = 30.0
GOAL_MS = 1000.0

Ages = npt.NDArray[np.float64]


class _Ages:
    """When commits were made, and how old they were when they were published."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: list[tuple[Position, float, int]] = []
        self._found: list[tuple[float, int]] = []

    def committed(self, position: Position, changes: int) -> None:
        with self._lock:
            self._waiting.append((position, time.monotonic(), changes))

    def published(self, progress: Progress) -> None:
        now = time.monotonic()
        with self._lock:
            done = [one for one in self._waiting if one[0] <= progress.position]
            self._waiting = self._waiting[len(done) :]
            self._found += [(now - at, changes) for _, at, changes in done]

    def forget(self) -> None:
        with self._lock:
            self._found.clear()

    def of_changes(self) -> Ages:
        """The age of each change, in milliseconds."""
        with self._lock:
            return np.repeat([age * 1000 for age, _ in self._found], [changes for _, changes in self._found])


def measure(directory: Path, minutes: float) -> Iterator[Line]:
    """For each rate the median and the tail."""
    for rate in RATES:
        ages, behind = _run(directory / f"steady-{rate}", rate, minutes)
        median, tail = (float(np.percentile(ages, part)) for part in (50, 99))
        yield Line(
            f"{rate:,} changes/s for {minutes:g} minutes, {VIEWS} views, p99",
            tail, "ms", GOAL_MS, "less", note=f"median {median:,.0f} ms, {behind:,} commits behind at the end",
        )  # fmt: skip


def _run(directory: Path, rate: int, minutes: float) -> tuple[Ages, int]:
    ages, dice = _Ages(), np.random.default_rng(rate)
    with App("steady", log=directory / "log") as app:
        app.topic("items", "id bigint, k bigint, v bigint", key="id", partitions=2)
        for number in range(VIEWS):
            app.view(f"v{number}", f"SELECT k % {number + 5} AS k, count(*) AS n, sum(v) AS v FROM items GROUP BY 1")
        thread = threading.Thread(target=lambda: app.run(ages.published), daemon=True)
        thread.start()
        for seconds in (WARM_SECONDS, minutes * 60):
            ages.forget()
            _produce(app, ages, rate, seconds, dice)
        behind = commit_of(app.log.position()) - commit_of(app.pipeline.position)
        found = ages.of_changes()
        app.stop()
        thread.join()
    return found, behind


def _produce(app: App, ages: _Ages, rate: int, seconds: float, dice: np.random.Generator) -> None:
    """Commits at even times; one that comes late does not make the next ones late."""
    size, began = rate // COMMITS_PER_SECOND, time.monotonic()
    for number in range(int(seconds * COMMITS_PER_SECOND)):
        time.sleep(max(0.0, began + number / COMMITS_PER_SECOND - time.monotonic()))
        rows = {
            "id": dice.integers(0, 1_000_000, size), "k": dice.integers(0, 1000, size), "v": dice.integers(0, 9, size)
        }  # fmt: skip
        ages.committed(app.log.append("items", pa.table(rows)), size)

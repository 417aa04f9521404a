"""From SIGKILL to the first new publication, with much state."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa

from bench.report import Line
from headwater.app import App
from headwater.model.position import Position

GOAL_SECONDS = 15.0
FILL_ROWS = 500_000
PATIENCE_SECONDS = 3600.0
CHANGES = 100


def application(directory: Path) -> App:
    """A table, an aggregate and a join with itself over it."""
    app = App("restart", log=directory / "log")
    app.topic("items", "id bigint, k bigint, v bigint", key="id", partitions=2)
    app.view("totals", "SELECT k, count(*) AS n, sum(v) AS total FROM items GROUP BY k")
    return app


def measure(directory: Path, rows: int) -> Iterator[Line]:
    """Kills a driver that has caught up with so many rows, and starts another one."""
    dice = np.random.default_rng(1)
    with application(directory) as app:
        for start in range(0, rows, FILL_ROWS):
            app.log.append("items", _rows(np.arange(start, min(start + FILL_ROWS, rows)), dice))
        first = _start(directory)
        _wait(app, app.log.position(), first)
        position = app.log.append("items", _rows(dice.integers(0, rows, CHANGES), dice))
        os.kill(first.pid, signal.SIGKILL)
        killed = time.monotonic()
        second = _start(directory)
        _wait(app, position, second)
        seconds = time.monotonic() - killed
        first.wait()
        second.terminate()
        steps, _ = second.communicate()
    yield Line(
        f"from SIGKILL to the first new publication, {rows:,} rows of state",
        seconds, "s", GOAL_SECONDS, "less", note=", ".join(steps.splitlines()),
    )  # fmt: skip


def _rows(ids: np.ndarray, dice: np.random.Generator) -> pa.Table:
    count = len(ids)
    return pa.table({"id": ids, "k": dice.integers(0, 1_000_000, count), "v": dice.integers(0, 1000, count)})


def _start(directory: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "bench.engine.restart", str(directory)], stdout=subprocess.PIPE, text=True
    )


def _wait(app: App, position: Position, driver: subprocess.Popen[str]) -> None:
    end = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < end:
        current = app.published()
        if current is not None and current.position >= position:
            return
        if driver.poll() is not None:
            raise RuntimeError("The driver has ended.")
        time.sleep(0.01)
    raise TimeoutError(f"Position {position} was not published.")


def _drive(directory: Path) -> None:
    """The driver: says how long its steps take, and runs until it is ended."""
    began, step = time.monotonic(), "Python's start and imports"

    def note(following: str) -> None:
        nonlocal began, step
        now = time.monotonic()
        sys.stdout.write(f"{step} {now - began:.1f} s\n")
        sys.stdout.flush()
        began, step = now, following

    with application(directory) as app:
        app.start_spark()
        app.plan(note)
        note("the batch")
        app.run(lambda _: note("the next"))


if __name__ == "__main__":
    _drive(Path(sys.argv[1]))

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
from headwater.cli.app_standby import LOOK_SECONDS
from headwater.engine.presence import Turn
from headwater.model.position import Position

GOAL_SECONDS = 8.0
STANDBY_GOAL_SECONDS = 2.0
FILL_ROWS = 500_000
PATIENCE_SECONDS = 3600.0
CHANGES = 100
STANDBY = "--standby"
READY = "ready"
VIEWS = {
    "totals": "SELECT k, count(*) AS n, sum(v) AS total FROM items GROUP BY k",
    "tenths": "SELECT k % 10 AS k, sum(v) AS total, avg(v) AS mean FROM items GROUP BY 1",
    "extremes": "SELECT k % 1000 AS k, min(v) AS least, max(v) AS most FROM items GROUP BY 1",
    "kinds": "SELECT k % 100 AS k, count(DISTINCT v) AS kinds FROM items GROUP BY 1",
    "few": "SELECT id, upper(concat('item ', id)) AS name, v * 2 AS twice FROM items WHERE id % 100 = 0",
    "pairs": "SELECT a.id, b.v FROM few a JOIN items b ON b.id = a.id + 1",
    "best": """SELECT * FROM (SELECT id, k, v, row_number() OVER (PARTITION BY k % 100 ORDER BY v DESC, id) AS place
               FROM items) WHERE place <= 3""",
    "spread": "SELECT twice % 7 AS k, stddev(twice) AS deviation FROM few GROUP BY 1",
    "paired": "SELECT count(*) AS n FROM few WHERE id IN (SELECT id FROM pairs WHERE v > 500)",
}


def application(directory: Path) -> App:
    """A table, and nine views over it: aggregates, joins, top-k, expressions, one of Spark's own nodes."""
    app = App("restart", log=directory / "log")
    app.topic("items", "id bigint, k bigint, v bigint", key="id", partitions=2)
    for name, sql in VIEWS.items():
        app.view(name, sql)
    return app


def measure(directory: Path, rows: int) -> Iterator[Line]:
    """Kills a driver that has caught up with this many rows, and starts another one; then the same with a standby."""
    dice = np.random.default_rng(1)
    about = f"{rows:,} rows of state, {len(VIEWS)} views"
    with application(directory) as app:
        for start in range(0, rows, FILL_ROWS):
            app.log.append("items", _rows(np.arange(start, min(start + FILL_ROWS, rows)), dice))
        first = _start(directory)
        _wait(app, app.log.position(), first)
        position, killed = _kill(app, first, _rows(dice.integers(0, rows, CHANGES), dice))
        second = _start(directory)
        _wait(app, position, second)
        seconds = time.monotonic() - killed
        third = _start(directory, STANDBY)
        steps = _until_ready(third)
        position, killed = _kill(app, second, _rows(dice.integers(0, rows, CHANGES), dice))
        _wait(app, position, third)
        standby_seconds = time.monotonic() - killed
        third.terminate()
        third.communicate()
    yield Line(
        f"from SIGKILL to the first new publication, {about}",
        seconds, "s", GOAL_SECONDS, "less", note=", ".join(steps),
    )  # fmt: skip
    yield Line(f"the same with a standby, {about}", standby_seconds, "s", STANDBY_GOAL_SECONDS, "less")


def _kill(app: App, driver: subprocess.Popen[str], rows: pa.Table) -> tuple[Position, float]:
    """Kills a driver, and appends rows that it does not see any more; the position after them, and when it was."""
    # Not while it is stopped: it may hold the log's write lock.
    os.kill(driver.pid, signal.SIGKILL)
    killed = time.monotonic()
    driver.wait()
    return app.log.append("items", rows), killed


def _until_ready(driver: subprocess.Popen[str]) -> list[str]:
    """What a driver says until it is ready."""
    assert driver.stdout is not None
    said: list[str] = []
    for line in driver.stdout:
        if line.startswith(READY):
            return said
        said.append(line.strip())
    raise RuntimeError("The driver has ended.")


def _rows(ids: np.ndarray, dice: np.random.Generator) -> pa.Table:
    count = len(ids)
    return pa.table({"id": ids, "k": dice.integers(0, 1_000_000, count), "v": dice.integers(0, 1000, count)})


def _start(directory: Path, *options: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "bench.engine.restart", str(directory), *options], stdout=subprocess.PIPE, text=True
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


def _drive(directory: Path, *, standby: bool) -> None:
    """The driver: says how long its steps take, and runs until it is ended; one that stands by waits for its turn."""
    began, step = time.monotonic(), "Python's start and imports"

    def note(following: str) -> None:
        nonlocal began, step
        now = time.monotonic()
        sys.stdout.write(f"{step} {now - began:.1f} s\n")
        sys.stdout.flush()
        began, step = now, following

    with application(directory) as app, Turn(app.directory) as turn:
        app.start_spark()
        app.plan(note)
        if standby:
            note("an empty batch")
            app.warm_up()
            note(READY)
            sys.stdout.write(f"{READY}\n")
            sys.stdout.flush()
            while not turn.has_come():
                time.sleep(LOOK_SECONDS)
        note("the batch")
        # A standby has its turn already, and shares it with the run.
        app.run(lambda _: note("the next"), take_over=standby)


if __name__ == "__main__":
    _drive(Path(sys.argv[1]), standby=STANDBY in sys.argv)

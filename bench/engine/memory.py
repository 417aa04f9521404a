"""Backlogs in little memory: driver, workers and Java together are held to a limit, and the views still catch up."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import numpy as np
import pyarrow as pa

from bench.engine.processes import below, memory_of
from bench.report import Line
from headwater.app import App

LIMIT_BYTES = 4 << 30
FILL_ROWS = 500_000
HOT_ROWS = 1_000_000
_GROUPS = Path("/sys/fs/cgroup")


def measure(directory: Path, rows: int) -> Iterator[Line]:
    """A long backlog of many keys, and keys with a million rows in a join and in a top-k."""
    cases = {
        "backlog": (rows, f"{rows:,} rows of backlog, 200,000 keys"),
        "join": (HOT_ROWS, f"a join in which one key has {HOT_ROWS:,} rows"),
        "top": (HOT_ROWS, f"a top-k in which one group has {HOT_ROWS:,} rows"),
    }
    for name, (count, title) in cases.items():
        place = directory / f"memory-{name}"
        with _application(name, place) as app:
            _fill(app, name, count)
        peak, limited, seconds = _held(name, place)
        yield Line(
            f"peak memory of all processes: {title}",
            peak / 2**30, "GiB", LIMIT_BYTES / 2**30, "less",
            note=f"{count / seconds:,.0f} rows/s with Spark's start, {'limited' if limited else 'only watched'}",
        )  # fmt: skip


def _application(name: str, place: Path) -> App:
    app = App("memory", log=place / "log")
    app.topic("items", "id bigint, k bigint, v bigint", key=None if name == "backlog" else "id", partitions=2)
    app.topic("names", "k bigint, name string", key="k")
    queries = {
        "backlog": "SELECT k, count(*) AS n, sum(v) AS total FROM items GROUP BY k",
        "join": "SELECT i.id, i.v, n.name FROM items i JOIN names n ON n.k = i.k",
        "top": "SELECT k, id, v FROM items QUALIFY row_number() OVER (PARTITION BY k ORDER BY v DESC, id) <= 10",
    }
    app.view("held", queries[name])
    return app


def _fill(app: App, name: str, rows: int) -> None:
    dice = np.random.default_rng(1)
    keys = 200_000 if name == "backlog" else 1
    for start in range(0, rows, FILL_ROWS):
        ids = np.arange(start, min(start + FILL_ROWS, rows))
        chosen = dice.integers(0, keys, len(ids))
        app.log.append("items", pa.table({"id": ids, "k": chosen, "v": dice.integers(0, 1000, len(ids))}))
    # The hot key changes after its rows are there, and some of them go.
    for number in range(3):
        app.log.append("names", [{"k": 0, "name": f"name {number}"}])
    if name != "backlog":
        with app.log.commit() as commit:
            commit.delete("items", pa.table({"id": dice.choice(rows, 1000, replace=False)}))


def _held(name: str, place: Path) -> tuple[int, bool, float]:
    """Runs the driver; the peak of its memory, whether that was limited, and the seconds it took."""
    group = _group()
    began = time.monotonic()
    driver = subprocess.Popen([sys.executable, "-m", "bench.engine.memory", name, str(place)], stdin=subprocess.PIPE)
    if group is not None:
        (group / "cgroup.procs").write_text(str(driver.pid))
    watch = _Watch(driver.pid)
    assert driver.stdin is not None
    driver.stdin.close()
    code = driver.wait()
    peak = watch.stop()
    seconds = time.monotonic() - began
    if group is not None:
        with suppress(OSError):
            group.rmdir()
    if code:
        raise RuntimeError(f"The driver of {name!r} failed with {code}.")
    return peak, group is not None, seconds


def _group() -> Path | None:
    """A control group with the limit, if this user may make one."""
    old, new = _GROUPS / "memory", _GROUPS
    for parent, limit in ((old, "memory.limit_in_bytes"), (new, "memory.max")):
        group = parent / f"headwater-bench-{time.monotonic_ns()}"
        with suppress(OSError):
            group.mkdir()
            if (group / limit).exists():
                (group / limit).write_text(str(LIMIT_BYTES))
                return group
            group.rmdir()
    return None


class _Watch:
    """Looks at the memory of a process and of all below it, five times a second."""

    def __init__(self, process: int) -> None:
        self._process, self._peak, self._stopped = process, 0, threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)
        self._thread.start()

    def stop(self) -> int:
        self._stopped.set()
        self._thread.join()
        return self._peak

    def _look(self) -> None:
        while not self._stopped.wait(0.2):
            self._peak = max(self._peak, sum(map(memory_of, below(self._process))))


def _drive(name: str, place: Path) -> None:
    # Begins when it is under its limit.
    sys.stdin.read()
    with _application(name, place) as app:
        app.catch_up()


if __name__ == "__main__":
    _drive(sys.argv[1], Path(sys.argv[2]))

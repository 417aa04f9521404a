"""Small batches, one after the other: how long each takes until a system's result has it.

The query counts the rows of groups, so that the counts say which batch a result has; the next batch is sent when it has
the last one.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from pathlib import Path
from time import monotonic as now

import pyarrow as pa
import pyarrow.parquet as pq

from bench.engine.peers.answering import CanNot

LINE = "latency"
TITLE = "100 changes to 1 view, median"
SQL = "SELECT k % 5 AS k, count(*) AS n, sum(v) AS v FROM items GROUP BY k % 5"
COLUMNS = {"id": "bigint", "k": "bigint", "v": "bigint"}
CHANGES = 100
WARM_BATCHES = 15
BATCH_SECONDS_MAX = 60.0


class Trickle:
    """Sends batches and waits for each in the result, which others tell it as it changes."""

    def __init__(self, batches: int) -> None:
        self._batches, self._changed = batches, threading.Condition()
        self._counts: dict[int, int] = {}
        self._at = 0.0

    def note(self, group: int, count: int) -> None:
        """The result has this many rows of a group now."""
        with self._changed:
            self._counts[group] = count
            self._at = now()
            self._changed.notify_all()

    def run(self, send: Callable[[int, pa.Table], None]) -> list[float]:
        """The milliseconds of all batches but the first ones, from the end of sending to the result."""
        dice = random.Random(1)
        times = []
        for number in range(WARM_BATCHES + self._batches):
            rows = {
                "id": [dice.randrange(100_000) for _ in range(CHANGES)],
                "k": [dice.randrange(1000) for _ in range(CHANGES)],
                "v": [dice.randrange(9) for _ in range(CHANGES)],
                "seq": list(range(number * CHANGES, (number + 1) * CHANGES)),
            }
            send(number, pa.table(rows))
            sent = now()
            published = self._wait((number + 1) * CHANGES)
            if number >= WARM_BATCHES:
                times.append(max(0.0, published - sent) * 1000)
        return times

    def _wait(self, rows: int) -> float:
        with self._changed:
            if not self._changed.wait_for(lambda: sum(self._counts.values()) >= rows, BATCH_SECONDS_MAX):
                raise CanNot(f"a batch of {CHANGES} rows did not show within {BATCH_SECONDS_MAX:.0f} s")
            return self._at


def drop_parquet(folder: Path) -> Callable[[int, pa.Table], None]:
    """Sends a batch as a file that appears whole in a folder."""
    hidden = folder.with_name(f"{folder.name}-unseen")
    folder.mkdir(parents=True, exist_ok=True)
    hidden.mkdir()

    def send(number: int, rows: pa.Table) -> None:
        file = hidden / f"{number:04d}.parquet"
        pq.write_table(rows, file)
        file.rename(folder / file.name)

    return send

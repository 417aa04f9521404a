"""Runs a view on a cluster whose tasks fail once, and hang once, in a function: a process of its own."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import pyarrow as pa
from pyspark import TaskContext

from headwater.app import App

BATCHES = 6
FAILS, HANGS = 2, 4
"""The batches in which the first attempt of a task fails, and hangs."""
HANGS_SECONDS = 60.0


def troubled(directory: Path, batch: pa.Array) -> pa.Array:
    """Notes each attempt; of those that do it first in a batch, one fails and one hangs."""
    context = TaskContext.get()
    assert context is not None
    for number in {FAILS, HANGS} & set(batch.to_pylist()):
        try:
            os.close(os.open(directory / f"first-{number}", os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            (directory / f"again-{number}-{context.attemptNumber()}").touch()
            continue
        if number == FAILS:
            raise OSError("a moment of weakness")
        time.sleep(HANGS_SECONDS)
    return batch


def main(master: str, folder: str) -> None:
    directory = Path(folder)
    with App("attempts", log=directory / "log", master=master, one_task_rows_max=0) as app:
        app.topic("events", "id bigint, batch bigint", partitions=2)
        app.function("troubled", lambda batch: troubled(directory, batch), "bigint")
        app.view(
            "counted", "SELECT id % 3 AS rest, count(*) AS n, sum(troubled(batch)) AS total FROM events GROUP BY 1"
        )
        for number in range(BATCHES):
            app.log.append("events", [{"id": row, "batch": number} for row in range(40)])
            app.catch_up()
            print(f"batch {number} {sorted(app.read('counted').to_pylist(), key=lambda row: row['rest'])}", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])

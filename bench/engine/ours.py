"""headwater at a workload: the input goes into a log, and then it is measured how fast the view catches up with it."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from bench.engine.workloads import Workload
from headwater.app import App
from headwater.engine.manifest import Size

COMMIT_ROWS = 50_000


@dataclass(frozen=True, slots=True)
class Caught:
    """A backlog that was caught up with. `batches` has the records and the seconds of each batch."""

    rows: int
    changes: int
    """Of the view."""
    seconds: float
    start_seconds: float
    batches: list[tuple[int, float]]
    state: dict[str, Size]
    view: pa.Table


def fill(workload: Workload, source: Path, app: App) -> int:
    """Appends the input to the log, in the order of all tables; how many rows there are."""
    for name, table in workload.tables.items():
        app.topic(name, table.schema, key=table.key, partitions=2)
    records = {name: _records(source / name) for name in workload.tables}
    total = sum(table.num_rows for table in records.values())
    done = dict.fromkeys(records, 0)
    for step in range(1, -(-total // COMMIT_ROWS) + 1):
        with app.log.commit() as commit:
            for name, table in records.items():
                seq = table["seq"].to_numpy()
                end = int(np.searchsorted(seq, 2**40 * step * COMMIT_ROWS // total))
                part = table.slice(done[name], end - done[name]).drop_columns(["seq"])
                if part.num_rows:
                    commit.append(name, part)
                done[name] = end
    return int(total)


def catch_up(workload: Workload, source: Path, directory: Path) -> Caught:
    """Fills a log, and brings the view up to date from its beginning."""
    with App("bench", log=directory / "log") as app:
        rows = fill(workload, source, app)
        app.view(workload.name, workload.sql)
        began = time.monotonic()
        app.plan()
        planned = time.monotonic()
        # The first batch is the one before the first record, in which the workers start.
        start, *others = list(app.batches())
        batches = [(progress.records, progress.duration.total_seconds()) for progress in others]
        seconds = sum(duration for _, duration in batches)
        changes = sum(progress.changes.get(workload.name, 0) for progress in others)
        start_seconds = planned - began + start.duration.total_seconds()
        return Caught(rows, changes, seconds, start_seconds, batches, app.state(), app.read(workload.name))


def _records(folder: Path) -> pa.Table:
    table = pa.concat_tables(pq.read_table(file) for file in sorted(folder.glob("*.parquet")))
    return table.rename_columns(["_deleted" if name == "deleted" else name for name in table.column_names])

"""How fast changes of a view are published while it catches up: a table, shown as it is."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from bench.engine import ours, truth
from bench.engine.workloads import Workload, items, write
from bench.report import Line

TABLE = Workload(
    "shown", "a table, shown as it is", {"items": items(50_000, 10_000)}, "SELECT id, k, v FROM items", 300_000,
    5_000_000,
)  # fmt: skip


def measure(directory: Path, scale: float) -> Iterator[Line]:
    write(TABLE, int(TABLE.rows * scale), directory / "input")
    caught = ours.catch_up(TABLE, directory / "input", directory)
    wrong = truth.differing(caught.view, truth.expected(TABLE, directory / "input"))
    yield Line(
        "changes of a view published during a backlog",
        0.0 if wrong else caught.changes / caught.seconds,
        "changes/s",
        TABLE.goal,
        note=f"WRONG: {wrong:,} rows differ" if wrong else f"{caught.changes:,} changes of {caught.rows:,} records",
    )

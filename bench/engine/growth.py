"""What a batch of 100 changes costs as the state grows, and what the state takes on disk."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from bench.engine.processes import below, is_java, memory_of
from bench.report import Line
from headwater.app import App
from headwater.engine.merging import consolidated
from headwater.engine.runs import open_run
from headwater.views.zset import HASH, WEIGHT

SIZES = (10_000, 100_000, 1_000_000, 10_000_000)
CHANGES = 100
WARM_BATCHES = 10
GOAL_GROWTH = 2.0
GOAL_SIZE, GOAL_AMPLIFICATION = 2.0, 10.0
FILL_ROWS = 500_000
_MEASURE = re.compile(r"_\d+_")

_TOPICS = {
    "aggregate": {"items": "id bigint, k bigint, v bigint"},
    "join": {"orders": "id bigint, customer bigint, amount bigint", "customers": "id bigint, country bigint"},
    "top": {"items": "id bigint, k bigint, v bigint"},
}
_QUERIES = {
    "aggregate": "SELECT k, count(*) AS n, sum(v) AS total FROM items GROUP BY k",
    "join": "SELECT o.id, o.amount, c.country FROM orders o JOIN customers c ON c.id = o.customer",
    "top": "SELECT k, id, v FROM items QUALIFY row_number() OVER (PARTITION BY k ORDER BY v DESC, id) <= 10",
}
GROUP_ROWS = 10
"""Rows of a group, or orders of a customer."""


@dataclass(frozen=True, slots=True)
class Kept:
    """What a state of some size costs: a small batch, and bytes."""

    milliseconds: float
    disk_bytes: int
    rows_bytes: int
    """Of what the state and the view hold, in Arrow, without hashes."""
    written_bytes: int
    given_bytes: int
    """Of all changes that came in, in Arrow."""
    memory_bytes: int
    """Of the workers; what they map of files is not counted."""


def measure(directory: Path, largest: int, batches: int) -> Iterator[Line]:
    """For each operator how much more a batch costs at the largest size than at the smallest."""
    for name in _QUERIES:
        found = {size: _kept(directory / f"{name}-{size}", name, size, batches) for size in SIZES if size <= largest}
        times = {size: kept.milliseconds for size, kept in found.items()}
        last = found[max(found)]
        shown = ", ".join(f"{size:,}: {value:,.0f} ms" for size, value in times.items())
        yield Line(
            f"{CHANGES} changes with {max(found):,} rows of state against {min(found):,}: {name}",
            times[max(found)] / times[min(found)], "x", GOAL_GROWTH, "less", note=shown,
            detail={"milliseconds": times},
        )  # fmt: skip
        yield Line(
            f"state on disk against its rows in Arrow: {name}, {max(found):,} rows",
            last.disk_bytes / last.rows_bytes, "x", GOAL_SIZE, "less", note=f"{last.disk_bytes / 2**20:,.0f} MiB",
        )  # fmt: skip
        yield Line(
            f"memory of the workers, for each row of state more: {name}",
            max(0, last.memory_bytes - found[min(found)].memory_bytes) / max(found), "bytes", better="less",
            note=f"{last.memory_bytes / 2**20:,.0f} MiB after {max(found):,} rows",
        )  # fmt: skip
        yield Line(
            f"bytes written against bytes of changes: {name}, {max(found):,} rows",
            last.written_bytes / last.given_bytes, "x", GOAL_AMPLIFICATION, "less",
            note=f"{last.written_bytes / 2**20:,.0f} MiB",
        )  # fmt: skip


def _kept(directory: Path, name: str, size: int, batches: int) -> Kept:
    dice = np.random.default_rng(size)
    with App("growth", log=directory / "log") as app:
        for topic, schema in _TOPICS[name].items():
            app.topic(topic, schema, key="id", partitions=2)
        given = 0
        for start in range(0, size, FILL_ROWS):
            given += _append(app, name, np.arange(start, min(start + FILL_ROWS, size)), size, dice)
        if name == "join":
            given += _send(app, "customers", _customers(size // GROUP_ROWS, dice))
        app.view(name, _QUERIES[name])
        written = _Written(app)
        for _ in app.batches():
            written.look()
        times = []
        for number in range(WARM_BATCHES + batches):
            given += _append(app, name, dice.integers(0, size, CHANGES), size, dice)
            for progress in app.batches():
                if number >= WARM_BATCHES:
                    times.append(progress.duration.total_seconds() * 1000)
                written.look()
        disk = sum(kept.bytes for kept in app.state().values())
        workers = [each for each in below(os.getpid())[1:] if not is_java(each)]
        memory = sum(map(memory_of, workers))
        return Kept(float(np.median(times)), disk, _rows_bytes(app), written.bytes, given, memory)


def _rows_bytes(app: App) -> int:
    store = app.pipeline.store
    total = 0
    for runs in store.runs(app.pipeline.generation.id).values():
        tables = [open_run(store.blobs, run).table for run in runs]
        measures = [name for name in tables[0].column_names if name == WEIGHT or _MEASURE.match(name)]
        total += consolidated(tables, measures).drop_columns([HASH]).nbytes
    return total


class _Written:
    """The bytes of all files of runs that ever were: files get new names, and are kept for some time."""

    def __init__(self, app: App) -> None:
        self._folder = Path(app.pipeline.store.blobs.address)
        self._seen: dict[str, int] = {}

    def look(self) -> None:
        self._seen |= {path.name: path.stat().st_size for path in self._folder.iterdir()}

    @property
    def bytes(self) -> int:
        return sum(self._seen.values())


def _append(app: App, name: str, ids: np.ndarray, size: int, dice: np.random.Generator) -> int:
    count = len(ids)
    groups = dice.integers(0, max(1, size // GROUP_ROWS), count)
    if name == "join":
        return _send(app, "orders", pa.table({"id": ids, "customer": groups, "amount": dice.integers(1, 500, count)}))
    return _send(app, "items", pa.table({"id": ids, "k": groups, "v": dice.integers(0, 1_000_000, count)}))


def _customers(count: int, dice: np.random.Generator) -> pa.Table:
    return pa.table({"id": np.arange(count), "country": dice.integers(0, 200, count)})


def _send(app: App, topic: str, rows: pa.Table) -> int:
    app.log.append(topic, rows)
    return int(rows.nbytes)

"""Measures what a small batch costs a join in time whose key is hot: `python -m bench.joins_in_time --help`.

Kernels over their state on the disk, without Spark: the join by equal keys, which reads all rows of a key, beside those
that read a stretch of its time.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import numpy as np
import pyarrow as pa
import typer
from rich.console import Console

from bench.report import Line, Report, machine
from headwater.engine.blobs import Blobs
from headwater.engine.opening import open_blobs
from headwater.engine.runs import Run, RunWriter, lookup
from headwater.engine.time_ordered import TimeOrdered
from headwater.views.asof_join import AsOfJoin
from headwater.views.frontier import NO_TIME
from headwater.views.join import Join
from headwater.views.kernel import Kernel, Part
from headwater.views.placing import hashes_of_keys
from headwater.views.range_join import RangeJoin
from headwater.views.zset import HASH, WEIGHT, consolidate

SIZES = (10_000, 100_000, 1_000_000)
SECOND = 1_000_000
_messages = Console(stderr=True)
_TIMESTAMP = pa.timestamp("us", tz="UTC")
_LEFT = pa.schema([("k", pa.int64()), ("at", _TIMESTAMP), ("id", pa.int64())])
_RIGHT = pa.schema([("rk", pa.int64()), ("since", _TIMESTAMP), ("value", pa.int64())])
_SIDES = _LEFT, _RIGHT, ("k",), ("rk",)
KERNELS: Mapping[str, Kernel] = {
    "join by key alone": Join("inner", *_SIDES),
    "range join, one minute": RangeJoin(*_SIDES, "at", "since", 0, 60 * SECOND),
    "as-of join": AsOfJoin("left", *_SIDES, "at", "since"),
}


def changed(schema: pa.Schema, first: int, count: int) -> pa.Table:
    """Changes of one key, a row per second."""
    numbers = np.arange(first, first + count)
    columns = [pa.array(np.ones(count, dtype=np.int64)), pa.array(numbers * SECOND, _TIMESTAMP), pa.array(numbers)]
    table = pa.table(columns, schema=schema)
    table = table.add_column(0, HASH, pa.array(hashes_of_keys(table, schema.names[:1])))
    return table.append_column(WEIGHT, pa.array(np.ones(count, dtype=np.int64)))


class State:
    """A kernel with its state in runs."""

    def __init__(self, kernel: Kernel, blobs: Blobs) -> None:
        self._kernel, self._blobs = kernel, blobs
        self._runs: dict[str, list[Run]] = {name: [] for name in kernel.parts}

    def step(self, changes: Mapping[str, pa.Table]) -> int:
        """Takes changes in; how many rows come out."""
        step = self._kernel.step(self._old(changes), changes, NO_TIME)
        for name, table in step.state.items():
            self._add(name, table)
        return int(step.out.num_rows)

    def fill(self, size: int) -> None:
        """Both sides of a key with this many rows, without joining them."""
        for name, part in self._kernel.parts.items():
            nothing = {port: changed(schema, 0, 0) for port, schema in self._kernel.ports.items()}
            old = {other: _schema(one).empty_table() for other, one in self._kernel.parts.items()}
            changes = {**nothing, name: changed(part.schema, 0, size)}
            self._add(name, self._kernel.step(old, changes, NO_TIME).state[name])

    def _add(self, name: str, table: pa.Table) -> None:
        writer = RunWriter(self._blobs, name=f"{name}-{len(self._runs[name])}")
        writer.add(name, table.select(_schema(self._kernel.parts[name]).names))
        self._runs[name] += writer.close()

    def _old(self, changes: Mapping[str, pa.Table]) -> Mapping[str, pa.Table]:
        parts = self._kernel.parts
        schemas = {name: _schema(part) for name, part in parts.items()}
        if all(part.in_time for part in parts.values()):
            return self._kernel.lookup(changes, TimeOrdered(self._blobs, parts, schemas, self._runs))
        old = {}
        for name, part in parts.items():
            given = [changes[port][HASH].to_numpy() for port in changes if part.ports is None or port in part.ports]
            found = lookup(self._blobs, self._runs[name], np.unique(np.concatenate(given)), schemas[name])
            old[name] = consolidate(found.combine_chunks())
        return old


def _schema(part: Part) -> pa.Schema:
    return pa.schema([(HASH, pa.int64()), *part.schema, *((name, pa.int64()) for name in part.measures)])


def measure(name: str, place: Path, size: int, batch: int, count: int) -> Line:
    """What a batch of new rows in the middle of a key's time takes."""
    place.mkdir()
    state = State(KERNELS[name], open_blobs(place))
    state.fill(size)
    times, out = [], 0
    for number in range(count + 2):
        first = size // 2 + number * batch
        changes = {"left": changed(_LEFT, first, batch), "right": changed(_RIGHT, 0, 0)}
        began = time.perf_counter()
        out = state.step(changes)
        times.append(1000 * (time.perf_counter() - began))
    note = f"{batch} new rows, {out:,} rows out; slowest {max(times[2:]):,.1f} ms"
    return Line(f"{name}, {size:,} rows of the key", statistics.median(times[2:]), "ms", better="less", note=note)


def main(
    *,
    rows_max: Annotated[int, typer.Option(help="The largest number of rows of the key.", min=1)] = SIZES[-1],
    batch: Annotated[int, typer.Option(help="New rows in a batch.", min=1)] = 10,
    count: Annotated[int, typer.Option("--batches", help="Batches that are measured.", min=1)] = 5,
    json: Annotated[Path | None, typer.Option(help="Also write everything to this file, as JSON.")] = None,
    markdown: Annotated[bool, typer.Option(help="Print Markdown, as in docs/benchmarks.md.")] = False,
) -> None:
    """Measures small batches, by the number of rows that their key has on each side."""
    lines: list[Line] = []
    with tempfile.TemporaryDirectory(prefix="headwater-bench-") as name:
        about = machine(Path(name))
        for rows in [size for size in SIZES if size <= rows_max] or [rows_max]:
            _messages.print(f"{rows:,} rows ...")
            for number, kernel in enumerate(KERNELS):
                lines.append(measure(kernel, Path(name) / f"{rows}-{number}", rows, batch, count))
    report = Report(about, {"batch": batch, "batches": count}, [], lines, title="Joins in time")
    if json is not None:
        json.write_text(report.to_json() + "\n")
    if markdown:
        typer.echo(report.to_markdown())
    else:
        report.print(Console(width=None if sys.stdout.isatty() else 200))


if __name__ == "__main__":
    typer.run(main)

"""Measures what a tick of the clock costs: `python -m bench.ticks --help`."""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated

import numpy as np
import pyarrow as pa
import typer
from rich.console import Console

from bench.report import Line, Report, machine
from headwater.app import App
from headwater.engine.opening import open_store
from headwater.engine.runs import HIGHEST, LOWEST, between, rows_of
from headwater.views.due_order import stretches

SIZES = (10_000, 100_000, 1_000_000, 10_000_000)
APPEND_ROWS = 1_000_000
NOW = datetime(2026, 1, 1, tzinfo=UTC)
SECOND = 1_000_000
_messages = Console(stderr=True)


def events(first: int, count: int, changed: int) -> pa.Table:
    """Rows that are due from now on, as many in every second as a tick is to change."""
    numbers = np.arange(first, first + count)
    at = int(NOW.timestamp()) * SECOND + numbers // changed * SECOND + 1
    return pa.table({"id": numbers, "at": pa.array(at, pa.timestamp("us", tz="UTC"))})


def fill(app: App, rows: int, changed: int) -> None:
    for first in range(0, rows, APPEND_ROWS):
        app.log.append("events", events(first, min(APPEND_ROWS, rows - first), changed))
    app.log.tick(NOW)
    app.catch_up()
    # Runs are merged a bounded amount at a time, by batches that add to them.
    for number in range(8):
        app.log.append("events", events(rows + number, 1, changed))
        app.catch_up()


def ticks(app: App, changed: int, count: int) -> Iterator[float]:
    """How long each batch takes that has nothing but a tick, in milliseconds."""
    for number in range(count + 5):
        app.log.tick(NOW + timedelta(seconds=number + 1))
        began = time.perf_counter()
        app.catch_up()
        if number >= 5:
            yield 1000 * (time.perf_counter() - began)
    shown = app.read("due").num_rows
    if shown != changed * (count + 5):
        raise RuntimeError(f"{shown} rows are shown after {count + 5} ticks of {changed}")


def finding(app: App, changed: int) -> Line:
    """The processor time for finding what is due, in this process, by which nothing else is measured."""
    with open_store(app.directory, create=False) as store:
        with store.read() as look:
            current = look.current()
            assert current is not None
            runs = [run for run in look.runs(current.id) if run.arrangement.endswith("pending")]
        schema = rows_of(store.blobs, runs[0]).schema
        taken, found = list[float](), schema.empty_table()
        for second in range(100):
            at = int(NOW.timestamp() + 500 + second) * SECOND
            began = time.process_time()
            found = between(store.blobs, runs, *stretches(LOWEST, HIGHEST, at, at + SECOND), schema)
            taken.append(1000 * (time.process_time() - began))
    rows = sum(run.rows for run in runs)
    if found.num_rows not in (changed, 2 * changed):
        raise RuntimeError(f"{found.num_rows} rows were found")
    note = f"{changed} rows, in {len(runs)} runs, opened before"
    return Line(
        f"finding what is due among {rows:,} rows, p50", statistics.median(taken), "ms", None, "less", note=note
    )


def measure(place: Path, rows: int, changed: int, count: int) -> list[Line]:
    with App("ticks", log=place / f"log-{rows}", master="local[2]") as app:
        app.clock()
        app.topic("events", "id bigint, at timestamp")
        app.view("due", "SELECT id, at FROM events WHERE at <= now()")
        fill(app, rows, changed)
        sought = finding(app, changed)
        found = list(ticks(app, changed, count))
    note = f"{changed} rows appear with each of {count} ticks; slowest {max(found):,.0f} ms"
    tick = Line(f"a tick over {rows:,} rows, p50", statistics.median(found), "ms", None, "less", note=note)
    return [sought, tick]


def main(
    *,
    rows_max: Annotated[int, typer.Option(help="The largest number of rows kept.", min=1)] = SIZES[-1],
    changed: Annotated[int, typer.Option(help="Rows that a tick changes.", min=1)] = 10,
    count: Annotated[int, typer.Option("--ticks", help="Ticks that are measured.", min=1)] = 40,
    json: Annotated[Path | None, typer.Option(help="Also write everything to this file, as JSON.")] = None,
    markdown: Annotated[bool, typer.Option(help="Print Markdown, as in docs/benchmarks.md.")] = False,
) -> None:
    """Measures the batch of one tick, from the log to the published view, by the number of rows that are kept."""
    lines: list[Line] = []
    with tempfile.TemporaryDirectory(prefix="headwater-bench-") as name:
        about = machine(Path(name))
        for rows in [size for size in SIZES if size <= rows_max] or [rows_max]:
            _messages.print(f"{rows:,} rows ...")
            lines.extend(measure(Path(name), rows, changed, count))
    report = Report(about, {"changed": changed, "ticks": count}, [], lines, title="Time")
    if json is not None:
        json.write_text(report.to_json() + "\n")
    if markdown:
        typer.echo(report.to_markdown())
    else:
        report.print(Console(width=None if sys.stdout.isatty() else 200))


if __name__ == "__main__":
    typer.run(main)

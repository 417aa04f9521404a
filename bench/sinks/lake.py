"""Measures tables of Parquet files as targets beside plain writes of their libraries: `python -m bench.sinks.lake`."""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Annotated, Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import typer
from deltalake import write_deltalake
from pyiceberg.catalog import load_catalog
from rich.console import Console

from bench.report import Floor, Line, Report, machine
from headwater.connectors.lake.target import LakeTarget
from headwater.connectors.registry import target_class
from headwater.engine.sinks.port import Mark
from headwater.engine.sinks.target import Assignment, Delivery
from headwater.model.position import Position

CHANGES = 1000
TEXT = "a text of about sixty bytes, as the rows of views are, number"
GOAL = 0.5
ROUNDS = 3


class Lake(ABC):
    """One format: its target, and what its library does with the same rows."""

    name: ClassVar[str]
    floor: ClassVar[str]

    @abstractmethod
    def arguments(self, place: Path) -> dict[str, Any]:
        """What the class of targets is called with."""

    @abstractmethod
    def writer(self, place: Path, rows: pa.Table) -> Callable[[pa.Table], object]:
        """A function that appends rows like these to a table of the library's own."""


class ParquetLake(Lake):
    name, floor = "Parquet", "pyarrow write_table"

    def arguments(self, place: Path) -> dict[str, Any]:
        return {"folder": place}

    def writer(self, place: Path, rows: pa.Table) -> Callable[[pa.Table], object]:
        place.mkdir()
        numbers = iter(range(1_000_000))
        return lambda each: pq.write_table(each, place / f"{next(numbers)}.parquet", compression="zstd")


class DeltaLake(Lake):
    name, floor = "Delta", "write_deltalake"

    def arguments(self, place: Path) -> dict[str, Any]:
        return {"table": place}

    def writer(self, place: Path, rows: pa.Table) -> Callable[[pa.Table], object]:
        return lambda each: write_deltalake(place, each, mode="append")


class IcebergLake(Lake):
    name, floor = "Iceberg", "pyiceberg append"

    def arguments(self, place: Path) -> dict[str, Any]:
        return {"catalog": f"sqlite:///{place}/catalog.db", "table": "bench.v"}

    def writer(self, place: Path, rows: pa.Table) -> Callable[[pa.Table], object]:
        place.mkdir()
        catalog = load_catalog("default", type="sql", uri=f"sqlite:///{place}/plain.db", warehouse=f"file://{place}")
        catalog.create_namespace("plain")
        return catalog.create_table("plain.v", rows.schema).append


LAKES = (ParquetLake(), DeltaLake(), IcebergLake())


def main(
    *,
    rows: Annotated[int, typer.Option(help="Rows of the first content.", min=CHANGES)] = 1_000_000,
    batches: Annotated[int, typer.Option(help="Deliveries of 1,000 changes.", min=1)] = 20,
    json: Annotated[Path | None, typer.Option(help="Also write everything to this file, as JSON.")] = None,
    markdown: Annotated[bool, typer.Option(help="Print Markdown, as in docs/benchmarks.md.")] = False,
) -> None:
    """Measures first content and steady changes of each format, delivered directly, and plain writes beside them."""
    floors: list[Floor] = []
    lines: list[Line] = []
    with tempfile.TemporaryDirectory(prefix="hw") as directory:
        about = machine(Path(directory))
        for lake in LAKES:
            found, measured = _measure(lake, Path(directory) / lake.name, rows, batches)
            floors += found
            lines += measured
    report = Report(
        about, {"rows": rows, "batches": batches}, floors, lines, title="Tables of Parquet files as targets"
    )
    if json is not None:
        json.write_text(report.to_json() + "\n")
    if markdown:
        typer.echo(report.to_markdown())
    else:
        report.print(Console(width=None if sys.stdout.isatty() else 200))


def _measure(lake: Lake, place: Path, rows: int, batches: int) -> tuple[list[Floor], list[Line]]:
    place.mkdir()
    content = _rows(np.arange(rows), 0)
    plain, firsts = [], []
    for number in range(ROUNDS):
        plain.append(rows / _seconds(lake.writer(place / f"plain{number}", content), content))
        with _target(lake, place / f"first{number}") as target:
            firsts.append(rows / _seconds(target.deliver, _delivery(1, content, content=True)))
    first, floor = statistics.median(firsts), statistics.median(plain)
    append = lake.writer(place / "small", content)
    small = CHANGES / statistics.median(_seconds(append, _rows(np.arange(CHANGES), each)) for each in range(batches))
    chance = np.random.default_rng(1)
    scattered = [np.sort(chance.choice(rows, CHANGES, replace=False)) for _ in range(batches)]
    together = [np.arange(CHANGES) + each * CHANGES % (rows - CHANGES + 1) for each in range(batches)]
    lines = [Line(f"{lake.name}: first content", first, "rows/s", GOAL * floor, floor=lake.floor, ratio=first / floor)]
    for called, keys, keep in (
        ("changes of random keys", scattered, "content"),
        ("changes of keys side by side", together, "content"),
        ("changes as a history", scattered, "changes"),
    ):
        taken = _steady(lake, place / f"{called}", content, keys, keep)
        note = f"{statistics.median(taken) * 1000:,.0f} ms for a delivery of {CHANGES:,} changed rows; {rows:,} rows"
        steady = CHANGES / statistics.median(taken)
        lines.append(
            Line(f"{lake.name}: {called}", steady, "rows/s", floor=lake.floor, ratio=steady / small, note=note)
        )
    return (
        [
            Floor(f"{lake.name}: {lake.floor}", floor, "rows/s", f"{rows:,} rows at once"),
            Floor(f"{lake.name}: {lake.floor}, {CHANGES:,} rows", small, "rows/s", "appended, nothing replaced"),
        ],
        lines,
    )


def _steady(lake: Lake, place: Path, content: pa.Table, keys: list[Any], keep: str) -> list[float]:
    """How long each delivery of changed rows takes, after the content."""
    with _target(lake, place, keep=keep) as target:
        target.deliver(_delivery(1, content, content=True))
        return [_seconds(target.deliver, _delivery(2 + each, _rows(keys[each], each + 1))) for each in range(len(keys))]


@contextmanager
def _target(lake: Lake, place: Path, **options: Any) -> Iterator[LakeTarget]:
    made: Any = target_class(lake.name)
    target: LakeTarget = made(**lake.arguments(place), every=0, **options)
    with closing(target):
        target.open(Assignment("bench", "lake", "v", ("key",)))
        yield target


def _delivery(number: int, rows: pa.Table, *, content: bool = False) -> Delivery:
    weights = pa.chunked_array([pa.array(np.ones(rows.num_rows, np.int64))])
    mark = Mark(Position.of([("", number)]), 1)
    return Delivery(mark, f"stamp {number}", rows, weights, rows, rows.select(["key"]).slice(0, 0), content)


def _rows(keys: Any, number: int) -> pa.Table:
    texts = pa.array([f"{TEXT} {number} {key}" for key in keys.tolist()])
    return pa.table({"key": pa.array(keys, pa.int64()), "amount": pa.array(keys * 0.5 + number), "text": texts})


def _seconds(work: Callable[[Any], object], given: Any) -> float:
    began = time.perf_counter()
    work(given)
    return time.perf_counter() - began


if __name__ == "__main__":
    typer.run(main)

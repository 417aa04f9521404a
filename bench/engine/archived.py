"""Rebuilding a view from archived segments against local ones: `python -m bench.engine.archived --help`."""

from __future__ import annotations

import shutil
import tempfile
import time
from pathlib import Path
from typing import Annotated

import typer

from bench.samples import BATCH_ROWS, SCHEMA, batches
from headwater.app import App
from headwater.log.embedded.cache import FOLDER
from headwater.log.maintenance import Maintenance

SQL = "SELECT customer % 1000 AS part, count(*) AS records, sum(amount) AS amount FROM records GROUP BY 1"


def main(
    *,
    rows: Annotated[int, typer.Option(help="How many rows the topic has.")] = 2_000_000,
    archive: Annotated[str | None, typer.Option(help="The archive; a directory beside the log by default.")] = None,
    rounds: Annotated[int, typer.Option(help="How often each is measured, in turns.")] = 3,
) -> None:
    """Prints rows per second of a rebuild from local segments, from an archive, and from the cache of one."""
    with tempfile.TemporaryDirectory(prefix="headwater-bench-") as name:
        place = Path(name)
        with App("fill", log=place / "log") as app:
            app.topic("records", SCHEMA)
            tables = batches()
            for _ in range(rows // BATCH_ROWS):
                app.log.append("records", next(tables))
            app.log.maintenance.seal("records")
        found: dict[str, list[float]] = {"local": [], "archived": [], "archived, cached": []}
        rebuild(place)
        for _ in range(rounds):
            found["local"].append(rebuild(place))
        move(place, archive or str(place / "archive"))
        for _ in range(rounds):
            shutil.rmtree(place / "log" / FOLDER, ignore_errors=True)
            found["archived"].append(rebuild(place))
            found["archived, cached"].append(rebuild(place))
    local = max(found["local"])
    for name, speeds in found.items():
        typer.echo(f"rebuild, {name}: {max(speeds):,.0f} rows/s, {max(speeds) / local:.2f} x local")


def move(place: Path, archive: str) -> None:
    """Leaves all segments in the archive only."""
    with App("move", log=place / "log") as app:
        app.log.alter("records", archive=archive, retention_bytes=1)
        files: Maintenance = app.log.maintenance
        files.upkeep()
        assert not any(segment.local for segment in files.segments("records"))


def rebuild(place: Path) -> float:
    """Builds the view from the beginning of the log; rows per second, without Spark's start."""
    shutil.rmtree(place / "log" / "pipelines", ignore_errors=True)
    with App("bench", log=place / "log") as app:
        app.view("parts", SQL)
        app.plan()
        steps = iter(app.batches())
        # The first batch is the one before the first record, in which the workers start.
        next(steps)
        began = time.perf_counter()
        rows = sum(progress.records for progress in steps)
        return rows / (time.perf_counter() - began)


if __name__ == "__main__":
    typer.run(main)

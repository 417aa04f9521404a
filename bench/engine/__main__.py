"""Measures how fast views are kept up to date: `python -m bench.engine --help`."""

from __future__ import annotations

import sys
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from bench.engine import latency, ours, truth
from bench.engine.workloads import WORKLOADS, Workload, write
from bench.report import Line, Report, machine

LATENCY = "latency"
_messages = Console(stderr=True)


def main(
    *,
    scale: Annotated[float, typer.Option(help="So much of the usual number of rows.", min=0.001, max=10.0)] = 1.0,
    batches: Annotated[int, typer.Option(help="Small batches whose latency is measured.", min=5)] = 60,
    only: Annotated[list[str] | None, typer.Option(help=f"Only: {', '.join([*WORKLOADS, LATENCY])}.")] = None,
    directory: Annotated[Path | None, typer.Option(help="Where to write; the disk that is measured.")] = None,
    json: Annotated[Path | None, typer.Option(help="Also write everything to this file, as JSON.")] = None,
    markdown: Annotated[bool, typer.Option(help="Print Markdown, as in docs/benchmarks.md.")] = False,
) -> None:
    """Measures backlogs that views catch up with, compared with DuckDB's answer, and the latency of small batches."""
    unknown = set(only or ()) - {*WORKLOADS, LATENCY}
    if unknown:
        raise typer.BadParameter(f"there is no line {', '.join(sorted(unknown))}")
    with tempfile.TemporaryDirectory(prefix="headwater-bench-", dir=directory) as name:
        place = Path(name)
        lines: list[Line] = []
        for workload in WORKLOADS.values():
            if not only or workload.name in only:
                _messages.print(f"{workload.title} ...")
                lines.append(_caught_up(workload, scale, place / workload.name))
        if not only or LATENCY in only:
            _messages.print("latency of small batches ...")
            lines += latency.measure(place, batches)
        report = Report(machine(place), {"scale": scale, "batches": batches}, [], lines, title="The engine")
    if json is not None:
        json.write_text(report.to_json() + "\n")
    if markdown:
        typer.echo(report.to_markdown())
    else:
        report.print(Console(width=None if sys.stdout.isatty() else 200))


def _caught_up(workload: Workload, scale: float, place: Path) -> Line:
    write(workload, int(workload.rows * scale), place / "input")
    caught = ours.catch_up(workload, place / "input", place)
    wrong = truth.differing(caught.view, truth.expected(workload, place / "input"))
    note = f"{caught.rows:,} rows, {len(caught.batches)} batches, Spark's start {caught.start_seconds:.0f} s before"
    return Line(
        workload.title,
        0.0 if wrong else caught.rows / caught.seconds,
        "rows/s",
        workload.goal,
        note=f"WRONG: {wrong:,} rows differ" if wrong else note,
        detail={"batches": caught.batches, "state": {name: asdict(size) for name, size in caught.state.items()}},
    )


if __name__ == "__main__":
    typer.run(main)

"""Measures how fast views are kept up to date: `python -m bench.engine --help`."""

from __future__ import annotations

import json as encoding
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from bench.engine import growth, latency, many, memory, ours, publishing, restart, steady, truth
from bench.engine.peers.answering import keep_to_cores
from bench.engine.peers.chart import svg
from bench.engine.peers.comparison import OURS, Comparison, Standing
from bench.engine.peers.installing import PEERS
from bench.engine.peers.running import Field
from bench.engine.peers.trickle import TITLE
from bench.engine.workloads import WORKLOADS, Workload, write
from bench.report import Line, Report, machine
from headwater.engine.pipeline import BATCH_ROWS_MAX

LATENCY, PUBLISHING, STEADY = "latency", "publishing", "steady"
GROWTH, RESTART, MEMORY, MANY = "growth", "restart", "memory", "many"
LINES = (*WORKLOADS, LATENCY, PUBLISHING, STEADY, GROWTH, RESTART, MEMORY, MANY)
STATE_ROWS, BACKLOG_ROWS = 10_000_000, 50_000_000
_messages = Console(stderr=True)


def main(
    *,
    scale: Annotated[float, typer.Option(help="So much of the usual number of rows.", min=0.001, max=10.0)] = 1.0,
    batches: Annotated[int, typer.Option(help="Small batches whose latency is measured.", min=5)] = 60,
    only: Annotated[list[str] | None, typer.Option("--only", "--lines", help=f"Only: {', '.join(LINES)}.")] = None,
    minutes: Annotated[float, typer.Option(help="How long a steady load lasts.", min=0.1)] = 10.0,
    peers: Annotated[str, typer.Option(help=f"All, none, or some with commas between: {', '.join(PEERS)}.")] = "all",
    seconds_max: Annotated[float, typer.Option(help="How long a peer may take for a line.", min=1.0)] = 1800.0,
    directory: Annotated[Path | None, typer.Option(help="Where to write; the disk that is measured.")] = None,
    json: Annotated[Path | None, typer.Option(help="Also write everything to this file, as JSON.")] = None,
    chart: Annotated[Path | None, typer.Option(help="Also draw all systems to this file, as SVG.")] = None,
    markdown: Annotated[bool, typer.Option(help="Print Markdown, as in docs/benchmarks.md.")] = False,
) -> None:
    """Measures backlogs that views catch up with, compared with DuckDB's answer, freshness, state and memory."""
    unknown = set(only or ()) - set(LINES)
    if unknown:
        raise typer.BadParameter(f"there is no line {', '.join(sorted(unknown))}")
    keep_to_cores()
    with tempfile.TemporaryDirectory(prefix="headwater-bench-", dir=directory) as name:
        place = Path(name)
        lines: list[Line] = []
        standings: list[Standing] = []
        field = Field({name: PEERS[name] for name in _named(peers)}, seconds_max, _messages)
        for workload in WORKLOADS.values():
            if not only or workload.name in only:
                _messages.print(f"{workload.title} ...")
                line, all_systems = _caught_up(workload, scale, place / workload.name, field)
                lines.append(line)
                standings += all_systems
        if not only or LATENCY in only:
            _messages.print("latency of small batches ...")
            ours_waited = list(latency.measure(place, batches))
            lines += ours_waited
            standings += _waited(ours_waited[0], field.latency(place, batches))
        lines += _others(place, only or LINES, scale, batches, minutes)
        report = Report(
            machine(place), {"scale": scale, "batches": batches, "minutes": minutes}, [], lines, title="The engine"
        )
    measured = dict.fromkeys(standing.line for standing in standings)
    titles = {name: TITLE if name == LATENCY else WORKLOADS[name].title for name in measured}
    comparison = Comparison(titles, standings)
    _show(report, comparison, json=json, chart=chart, markdown=markdown)


def _others(place: Path, only: Sequence[str], scale: float, batches: int, minutes: float) -> Iterator[Line]:
    """What is measured of headwater alone."""
    rows = int(STATE_ROWS * scale)
    measures: dict[str, Callable[[], Iterator[Line]]] = {
        PUBLISHING: lambda: publishing.measure(place / PUBLISHING, scale),
        STEADY: lambda: steady.measure(place, minutes),
        GROWTH: lambda: growth.measure(place, rows, batches),
        RESTART: lambda: restart.measure(place / RESTART, rows),
        MEMORY: lambda: memory.measure(place, int(BACKLOG_ROWS * scale)),
        MANY: lambda: many.measure(place / MANY, max(10, int(many.VIEWS * scale))),
    }
    for name, measure in measures.items():
        if name in only:
            _messages.print(f"{name} ...")
            yield from measure()


def _named(peers: str) -> list[str]:
    """The peers of the option."""
    names = {"all": list(PEERS), "none": []}.get(peers, peers.split(","))
    unknown = set(names) - set(PEERS)
    if unknown:
        raise typer.BadParameter(f"there is no peer {', '.join(sorted(unknown))}")
    return names


def _waited(ours: Line, others: list[Standing]) -> list[Standing]:
    """The line of one view among the peers at small batches, if there are any."""
    return [Standing(OURS, LATENCY, median=ours.value, note=ours.note), *others] if others else []


def _show(report: Report, comparison: Comparison, *, json: Path | None, chart: Path | None, markdown: bool) -> None:
    if json is not None:
        content = {**encoding.loads(report.to_json()), "peers": comparison.to_values()}
        json.write_text(encoding.dumps(content, indent=2) + "\n")
    if chart is not None:
        chart.write_text(svg(comparison))
    has_peers = len(comparison.systems) > 1
    if markdown:
        typer.echo("\n\n".join([report.to_markdown(), *([comparison.to_markdown()] if has_peers else [])]))
        return
    console = Console(width=None if sys.stdout.isatty() else 200)
    report.print(console)
    if has_peers:
        comparison.print(console)


def _caught_up(workload: Workload, scale: float, place: Path, field: Field) -> tuple[Line, list[Standing]]:
    rows = int(workload.rows * scale)
    write(workload, rows, place / "input")
    caught = ours.catch_up(workload, place / "input", place)
    expected = truth.expected(workload, place / "input")
    wrong = truth.differing(caught.view, expected)
    note = f"{caught.rows:,} rows, {len(caught.batches)} batches, Spark's start {caught.start_seconds:.0f} s before"
    standing = Standing(
        OURS,
        workload.name,
        caught.rows,
        caught.seconds,
        caught.start_seconds,
        wrong,
        versions={"pyspark": version("pyspark")},
        settings={"records of a batch, at most": f"{BATCH_ROWS_MAX:,}"},
    )
    line = Line(
        workload.title,
        0.0 if wrong else caught.rows / caught.seconds,
        "rows/s",
        workload.goal,
        note=f"WRONG: {wrong:,} rows differ" if wrong else note,
        detail={"batches": caught.batches, "state": {name: asdict(size) for name, size in caught.state.items()}},
    )
    return line, [standing, *field.measure(workload, rows, place, expected)]


if __name__ == "__main__":
    typer.run(main)

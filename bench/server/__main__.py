"""Measures the server: `python -m bench.server --help`."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from bench.report import Line, Report, machine
from bench.server import ingest, queries, views

LINES = ("ingest", "queries", "views")
_messages = Console(stderr=True)


def main(
    *,
    seconds: Annotated[float, typer.Option(help="How long each line is measured.", min=1.0)] = 20.0,
    subscribers: Annotated[int, typer.Option(help="Followers of one view.", min=1)] = views.SUBSCRIBERS,
    only: Annotated[list[str] | None, typer.Option(help=f"Only: {', '.join(LINES)}.")] = None,
    directory: Annotated[Path | None, typer.Option(help="Where to write; the disk that is measured.")] = None,
    json: Annotated[Path | None, typer.Option(help="Also write everything to this file, as JSON.")] = None,
    markdown: Annotated[bool, typer.Option(help="Print Markdown, as in docs/benchmarks.md.")] = False,
) -> None:
    """Measures appends and queries over HTTP, rows by key while a pipeline runs, and changes to many followers."""
    unknown = set(only or ()) - set(LINES)
    if unknown:
        raise typer.BadParameter(f"there is no line {', '.join(sorted(unknown))}")
    with tempfile.TemporaryDirectory(prefix="headwater-bench-", dir=directory) as name:
        place = Path(name)
        about = machine(place)
        lines: list[Line] = []
        if not only or "ingest" in only:
            _messages.print("ingest ...")
            lines += ingest.measure(place, seconds)
        if not only or "queries" in only:
            _messages.print("queries ...")
            lines += queries.measure(place, seconds)
        if not only or "views" in only:
            _messages.print("reads and followers, while a pipeline runs ...")
            lines += views.measure(place, seconds, subscribers)
    report = Report(about, {"seconds": seconds, "subscribers": subscribers}, [], lines, title="The server")
    if json is not None:
        json.write_text(report.to_json() + "\n")
    if markdown:
        typer.echo(report.to_markdown())
    else:
        report.print(Console(width=None if sys.stdout.isatty() else 200))


if __name__ == "__main__":
    typer.run(main)

"""Measures sinks: `python -m bench.sinks --help`."""

from __future__ import annotations

import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from bench.report import Floor, Line, Report, machine
from bench.sinks import feeding, latency
from bench.sinks.outside import OUTSIDES, room

_messages = Console(stderr=True)


def main(
    *,
    rows: Annotated[int, typer.Option(help="Rows of the first content.", min=1000)] = 200_000,
    batches: Annotated[int, typer.Option(help="Batches of 1,000 changes that wait.", min=1)] = 50,
    seconds: Annotated[float, typer.Option(help="How long latency is measured; 0 needs no Spark.", min=0.0)] = 30.0,
    only: Annotated[list[str] | None, typer.Option(help=f"Only: {', '.join(OUTSIDES)}.")] = None,
    json: Annotated[Path | None, typer.Option(help="Also write everything to this file, as JSON.")] = None,
    markdown: Annotated[bool, typer.Option(help="Print Markdown, as in docs/benchmarks.md.")] = False,
) -> None:
    """Measures first content, changes that wait, and commit to visible, of each target and against its own floor."""
    try:
        chosen = feeding.names(only, iter(OUTSIDES))
    except KeyError as error:
        raise typer.BadParameter(f"there is no target {error.args[0]}") from None
    floors: list[Floor] = []
    lines: list[Line] = []
    with room() as directory:
        # If root runs it, somebody else runs PostgreSQL.
        Path(directory).chmod(0o711)
        about = machine(Path(directory))
        for name in chosen:
            _messages.print(f"{name} ...")
            with ExitStack() as opened:
                place = Path(directory) / name
                place.mkdir()
                outside = OUTSIDES[name](opened, place)
                found, measured = feeding.measure(outside, place, rows, batches)
                floors += found
                lines += measured
                if seconds:
                    lines += latency.measure(outside, place, seconds)
    report = Report(about, {"rows": rows, "batches": batches, "seconds": seconds}, floors, lines, title="Sinks")
    if json is not None:
        json.write_text(report.to_json() + "\n")
    if markdown:
        typer.echo(report.to_markdown())
    else:
        report.print(Console(width=None if sys.stdout.isatty() else 200))


if __name__ == "__main__":
    typer.run(main)

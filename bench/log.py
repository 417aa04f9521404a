"""Measures the log against the disk under it: `python bench/log.py --help`."""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

sys.path.insert(0, str(Path(__file__).parents[1]))

from bench import appends, archived, floors, growth, opening, producers, reads, wakeups
from bench.floors import Floors
from bench.report import Line, Report, machine
from bench.scale import DISK_BYTES_PER_ROW, FULL, FULL_ROWS, QUICK, USUAL, Scale

Step = Callable[[str], None]


Part = Callable[[Path, Floors, Scale, Step], Iterator[Line]]

PARTS: dict[str, Part] = {
    "appends": appends.measure,
    "producers": producers.measure,
    "reads": reads.measure,
    "archive": archived.measure,
    "wakeups": wakeups.measure,
    "opening": opening.measure,
    "growth": growth.measure,
}


def main(
    *,
    quick: Annotated[bool, typer.Option(help="A few seconds: shows that it works, not how fast.")] = False,
    full: Annotated[bool, typer.Option(help="Grow the log to 100 million rows: minutes more, 25 GB of disk.")] = False,
    scale: Annotated[
        float | None, typer.Option(help="Grow the log to this part of 100 million rows.", min=0.0001, max=1.0)
    ] = None,
    only: Annotated[list[str] | None, typer.Option(help=f"Only this part: {', '.join(PARTS)}.")] = None,
    directory: Annotated[Path | None, typer.Option(help="Where to write; the disk that is measured.")] = None,
    json: Annotated[Path | None, typer.Option(help="Also write everything to this file, as JSON.")] = None,
    markdown: Annotated[bool, typer.Option(help="Print Markdown, as in docs/benchmarks.md.")] = False,
) -> None:
    """Measures the log and, in the same run, the floors: what the disk, SQLite and Arrow do by themselves."""
    chosen = QUICK if quick else FULL if full else USUAL
    if scale is not None:
        chosen = chosen.grown_to(int(FULL_ROWS * scale))
    unknown = set(only or ()) - set(PARTS)
    if unknown:
        raise typer.BadParameter(f"there is no part {', '.join(sorted(unknown))}")
    report = _run(chosen, [part for part in PARTS if not only or part in only], directory)
    if json is not None:
        json.write_text(report.to_json() + "\n")
    if markdown:
        typer.echo(report.to_markdown())
    else:
        report.print(Console(width=None if sys.stdout.isatty() else 200))


def _run(scale: Scale, parts: list[str], directory: Path | None) -> Report:
    with _progress() as step, _temporary(directory) as place:
        found = machine(place)
        room = shutil.disk_usage(place).free // DISK_BYTES_PER_ROW
        if room < scale.grown_rows:
            scale = scale.grown_to(room)
        measured = floors.measure(_made(place / "floors"), seconds=scale.seconds / 2, step=step)
        shutil.rmtree(place / "floors")
        lines: list[Line] = []
        for part in parts:
            lines += PARTS[part](_made(place / part), measured, scale, step)
            # The disk is given back part by part.
            shutil.rmtree(place / part)
    settings = {"durability": "fsync", "scale": scale.name, "seconds per rate": scale.seconds}
    return Report(found, settings, measured.listed(), lines)


def _made(directory: Path) -> Path:
    directory.mkdir()
    return directory


@contextmanager
def _temporary(parent: Path | None) -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="headwater-bench-", dir=parent) as name:
        yield Path(name)


@contextmanager
def _progress() -> Iterator[Step]:
    """A line on stderr that says what is being measured."""
    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("", total=None)
        yield lambda text: progress.update(task, description=text)


if __name__ == "__main__":
    typer.run(main)

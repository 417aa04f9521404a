"""Whose processor time a backlog takes, batch by batch: `python -m bench.engine.costs join --rows 5000000`."""

from __future__ import annotations

import os
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from bench.engine import ours
from bench.engine.workloads import WORKLOADS, write
from headwater.app import App

_TICKS = os.sysconf("SC_CLK_TCK")
_PROC = Path("/proc")
DRIVER, WORKERS = "driver", "Python workers"
JAVA = {"C1 Compiler": "Java compiling", "C2 Compiler": "Java compiling", "GC Thread": "Java collecting"}
"""What threads of Java's virtual machine do, by their names; all others run Spark."""
SPARK = "Spark"


def main(
    line: Annotated[str, typer.Argument(help=f"One of {', '.join(WORKLOADS)}.")],
    rows: Annotated[int, typer.Option(help="Rows of the backlog.", min=1000)] = 5_000_000,
) -> None:
    """Catches up with a backlog and prints the processor seconds of each part, for every batch."""
    workload = WORKLOADS[line]
    table = Table("rows", "seconds", DRIVER, SPARK, *dict.fromkeys(JAVA.values()), WORKERS)
    with tempfile.TemporaryDirectory(prefix="headwater-costs-") as name:
        place = Path(name)
        write(workload, rows, place / "input")
        with App("costs", log=place / "log") as app:
            ours.fill(workload, place / "input", app)
            app.view(workload.name, workload.sql)
            before: Counter[str] = Counter()
            for progress in app.batches():
                now = _seconds()
                spent = [f"{now[column.header] - before[column.header]:.2f}" for column in table.columns[2:]]
                table.add_row(f"{progress.records:,}", f"{progress.duration.total_seconds():.2f}", *spent)
                before = now
    Console().print(table)


def _seconds() -> Counter[str]:
    """The processor time of this process and of all that it has started, by what it is for."""
    spent: Counter[str] = Counter()
    for process in _family(os.getpid()):
        name = _status(process)[0]
        for thread in process.glob("task/*") if name == "java" else [process]:
            kind, seconds = _spent(thread)
            spent[kind if name == "java" else DRIVER if process.name == str(os.getpid()) else WORKERS] += seconds
    return spent


def _family(first: int) -> Iterator[Path]:
    parents = {process: int(_status(process)[1][1]) for process in _PROC.glob("[0-9]*") if (process / "stat").exists()}
    found = [_PROC / str(first)]
    for process in found:
        found += [child for child, parent in parents.items() if str(parent) == process.name]
        yield process


def _spent(thread: Path) -> tuple[str, float]:
    name, fields = _status(thread)
    kind = next((kind for begin, kind in JAVA.items() if name.startswith(begin)), SPARK)
    return kind, (int(fields[11]) + int(fields[12])) / _TICKS


def _status(process: Path) -> tuple[str, list[str]]:
    """The name of a process or thread, and the numbers that the system keeps of it; zeros once it has ended."""
    try:
        name, _, fields = (process / "stat").read_text().partition("(")[2].rpartition(")")
    except OSError:
        return "", ["0"] * 20
    return name, fields.split()


if __name__ == "__main__":
    typer.run(main)

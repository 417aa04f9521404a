"""Whose processor time a backlog takes, batch by batch: `python -m bench.engine.costs join --rows 5000000`."""

from __future__ import annotations

import os
import tempfile
from collections import defaultdict
from contextlib import suppress
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from bench.engine import ours
from bench.engine.processes import below, is_java
from bench.engine.workloads import WORKLOADS, write
from headwater.app import App

_TICKS = os.sysconf("SC_CLK_TCK")
DRIVER, WORKERS = "driver", "Python workers"
JAVA = {"C1 Compiler": "Java compiling", "C2 Compiler": "Java compiling", "GC Thread": "Java collecting"}
"""What threads of Java's virtual machine do, by their names; all others run Spark."""
SPARK = "Spark"


def main(
    line: Annotated[str, typer.Argument(help=f"One of {', '.join(WORKLOADS)}.")],
    rows: Annotated[int, typer.Option(help="Rows of the backlog.", min=1000)] = 5_000_000,
) -> None:
    """Catches up with a backlog and prints the processor seconds of each part, for every batch."""
    if line not in WORKLOADS:
        raise typer.BadParameter(f"there is no line {line}; there are {', '.join(WORKLOADS)}")
    workload = WORKLOADS[line]
    kinds = [DRIVER, SPARK, *dict.fromkeys(JAVA.values()), WORKERS]
    table = Table("rows", "seconds", *kinds)
    with tempfile.TemporaryDirectory(prefix="headwater-costs-") as name:
        place = Path(name)
        write(workload, rows, place / "input")
        with App("costs", log=place / "log") as app:
            ours.fill(workload, place / "input", app)
            app.view(workload.name, workload.sql)
            before: dict[str, float] = defaultdict(float)
            for progress in app.batches():
                now = _seconds()
                spent = [f"{now[kind] - before[kind]:.2f}" for kind in kinds]
                table.add_row(f"{progress.records:,}", f"{progress.duration.total_seconds():.2f}", *spent)
                before = now
    Console().print(table)


def _seconds() -> dict[str, float]:
    """The processor time of this process and of all that it has started, by what it is for."""
    spent: dict[str, float] = defaultdict(float)
    me = os.getpid()
    for process in below(me):
        folder = Path(f"/proc/{process}")
        if is_java(process):
            for thread in folder.glob("task/*"):
                name, seconds = _spent(thread)
                spent[next((kind for begin, kind in JAVA.items() if name.startswith(begin)), SPARK)] += seconds
        else:
            spent[DRIVER if process == me else WORKERS] += _spent(folder)[1]
    return spent


def _spent(thread: Path) -> tuple[str, float]:
    """The name of a process or thread and its processor time; none once it has ended."""
    with suppress(OSError):
        name, _, fields = (thread / "stat").read_text().partition("(")[2].rpartition(")")
        return name, sum(int(ticks) for ticks in fields.split()[11:13]) / _TICKS
    return "", 0.0


if __name__ == "__main__":
    typer.run(main)

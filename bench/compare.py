"""Runs lines of the engine's benchmark in turns on two source trees, and prints the ratio of what each took.

    python -m bench.compare ../before --only sum top --scale 0.3 --turns 3

Both trees use the Python that runs this. Processor time counts every process of a run, Java and its workers included,
so it is comparable on a machine that does other work at the same time; the figure of a line is not.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from rich.console import Console
from rich.table import Table

from bench.engine.workloads import WORKLOADS

HERE = Path(__file__).parents[1]
LINES = (*WORKLOADS, "latency", "publishing")
_PR_SET_CHILD_SUBREAPER = 36
_messages = Console(stderr=True)


@dataclass(frozen=True, slots=True)
class Run:
    """What one run of one line of the benchmark gave: its figures by title, and the processor time of all processes."""

    figures: dict[str, float]
    processor_seconds: float


def run(tree: Path, line: str, scale: float, batches: int) -> Run:
    """Runs one line in a source tree. Raises `CalledProcessError`."""
    with tempfile.TemporaryDirectory(prefix="headwater-compare-") as name:
        result = Path(name) / "result.json"
        command = [sys.executable, "-m", "bench.engine", "--only", line, "--peers", "none", "--directory", name]
        command += ["--scale", str(scale), "--batches", str(batches), "--json", str(result)]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tree / "src"), str(tree)])}
        before = _processor_seconds()
        subprocess.run(command, cwd=tree, env=environment, check=True, stdout=subprocess.DEVNULL)
        _collect_orphans()
        lines = json.loads(result.read_text())["lines"]
        return Run({each["name"]: float(each["value"]) for each in lines}, _processor_seconds() - before)


def _processor_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _adopt_orphans() -> None:
    """Lets this process inherit what the benchmark leaves behind, so that its processor time counts."""
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def _collect_orphans() -> None:
    while True:
        try:
            os.waitpid(-1, 0)
        except ChildProcessError:
            return


def show(line: str, before: Sequence[Run], after: Sequence[Run], table: Table) -> None:
    """Adds a row per figure of a line, and one for the processor time."""
    for title in before[0].figures:
        _row(table, title, [one.figures[title] for one in before], [one.figures[title] for one in after])
    _row(
        table,
        f"{line}: processor seconds of the run",
        [one.processor_seconds for one in before],
        [one.processor_seconds for one in after],
    )


def _row(table: Table, title: str, before: Sequence[float], after: Sequence[float]) -> None:
    cells = ["; ".join(f"{value:,.0f}" for value in values) for values in (before, after)]
    table.add_row(title, *cells, f"{median(after) / median(before):.2f} x")


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("before", type=Path, help="the other source tree, such as a git worktree of an older commit")
    parser.add_argument("--only", nargs="+", default=LINES, choices=LINES, metavar="LINE", help=", ".join(LINES))
    parser.add_argument("--scale", type=float, default=0.3, help="share of the usual number of rows")
    parser.add_argument("--batches", type=int, default=40, help="small batches whose latency is measured")
    parser.add_argument("--turns", type=int, default=3, help="runs of each line on each tree")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str]) -> int:
    options = parse(arguments)
    _adopt_orphans()
    table = Table("what", "before", "after", "after / before")
    for line in options.only:
        before, after = list[Run](), list[Run]()
        for turn in range(options.turns):
            _messages.print(f"{line}: turn {turn + 1} of {options.turns} ...")
            before.append(run(options.before.resolve(), line, options.scale, options.batches))
            after.append(run(HERE, line, options.scale, options.batches))
        show(line, before, after, table)
    Console(width=None if sys.stdout.isatty() else 200).print(table)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""Brings old bugs back one by one, in a copy of the source, and measures how soon the fuzzer finds each.

    python -m tools.mutants
    python -m tools.mutants --only 3 11 --minutes 5 --seed 7

A mutant is a small change of the source (tools/mutations.py). Number 0 is the source as it is, in which nothing must be
found; it is run if it is named. Exit code 1 means that a mutant was not found, or no longer fits the source.

All runs share one Java virtual machine, which is as fast after the first of them as it is in a long run of the fuzzer.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark import SparkContext
from rich.console import Console
from rich.table import Table

from headwater.spark.session import start_session
from tools.fuzzing.running import INTERPRETED, MASTER
from tools.mutations import MUTANTS, Mutant, NotApplicable

ROOT = Path(__file__).resolve().parents[1]
UNCHANGED = Mutant(0, "the source as it is", ())
_SQL_CHARACTERS_MAX = 160
_SAID_CHARACTERS_MAX = 120
_ROUND_SECONDS_MAX = 1200.0
"""How long the round may take that has begun before the time is up."""
messages = Console(stderr=True, soft_wrap=True, highlight=False, markup=False)


@dataclass(frozen=True, slots=True)
class Result:
    """What a run of the fuzzer over a mutant gave; without a seed, it found nothing."""

    mutant: Mutant
    seconds: float
    processor_seconds: float
    rounds: int = 0
    seed: int | None = None
    sql: str = ""
    said: str = ""

    @property
    def right(self) -> bool:
        return (self.seed is None) == (self.mutant is UNCHANGED)

    def row(self) -> list[str]:
        """The cells of the table."""
        found = "nothing" if self.seed is None else f"seed {self.seed}"
        times = [f"{self.seconds:.0f}", f"{self.processor_seconds:.0f}"]
        return [str(self.mutant.number), self.mutant.what, found, self.sql, self.said, str(self.rounds), *times]


_COLUMNS = ("#", "bug", "found by", "view", "what was said", "rounds", "seconds", "processor seconds")


def parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--only", type=int, nargs="+", metavar="N", help="some of the mutants, by number")
    parser.add_argument("--minutes", type=float, default=10.0, metavar="M", help="start no round after this time")
    parser.add_argument("--seed", type=int, default=1, metavar="S", help="of the first round; the next has S+1")
    parser.add_argument("--rounds", type=int, metavar="N", help="rounds for each mutant, at the most")
    parser.add_argument("--views", type=int, metavar="V", help="views in a round")
    parser.add_argument("--steps", type=int, metavar="B", help="steps in a round")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="for what the fuzzer writes about its findings")
    parser.add_argument("--markdown", action="store_true", help="print the table as Markdown")
    return parser.parse_args(arguments)


class Java:
    """A Java virtual machine for Spark, which processes use one after the other."""

    def __init__(self) -> None:
        start_session(MASTER, **INTERPRETED).stop()
        gateway: Any = SparkContext._gateway  # noqa: SLF001
        self._stat = Path(f"/proc/{gateway.proc.pid}/stat")
        self._address = gateway.java_parameters.port, gateway.java_parameters.auth_token

    @property
    def environment(self) -> dict[str, str]:
        """The variables by which PySpark finds it."""
        port, secret = self._address
        return {"PYSPARK_GATEWAY_PORT": str(port), "PYSPARK_GATEWAY_SECRET": secret}

    @property
    def processor_seconds(self) -> float:
        """What it has used, with those of its children that have ended."""
        ticks = self._stat.read_text().rpartition(")")[2].split()[11:15]
        return sum(map(int, ticks)) / os.sysconf("SC_CLK_TCK")


def chosen(only: list[int] | None) -> list[Mutant]:
    """The mutants with these numbers; all of them if none are given."""
    if only is None:
        return list(MUTANTS)
    by_number = {mutant.number: mutant for mutant in (UNCHANGED, *MUTANTS)}
    return [by_number[number] for number in only]


def run(mutant: Mutant, options: argparse.Namespace, java: Java) -> Result:
    """Runs the fuzzer over a copy of the source with the mutant in it, until its first finding."""
    with tempfile.TemporaryDirectory(prefix="headwater-mutant-") as folder:
        shutil.copytree(ROOT / "src", Path(folder) / "src", ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
        mutant.apply(Path(folder) / "src" / "headwater")
        began, before = time.monotonic(), _processor_seconds(java)
        figures = _fuzz(Path(folder), options, java)
        seconds, processor_seconds = time.monotonic() - began, _processor_seconds(java) - before
    if not figures["findings"]:
        return Result(mutant, seconds, processor_seconds, figures["rounds"])
    finding = figures["findings"][0]
    sql = _shortened(finding["sql"], _SQL_CHARACTERS_MAX)
    return Result(mutant, seconds, processor_seconds, figures["rounds"], figures["last_seed"], sql, _said(finding))


def _fuzz(folder: Path, options: argparse.Namespace, java: Java) -> dict[str, Any]:
    """The figures of a run of the fuzzer."""
    command = [sys.executable, "-m", "tools.fuzz_views", "--first", "--json", "--shrink", "0"]
    command += ["--minutes", str(options.minutes), "--seed", str(options.seed)]
    command += ["--keep", str(options.keep or folder / "findings")]
    for name in ("rounds", "views", "steps"):
        if getattr(options, name) is not None:
            command += [f"--{name}", str(getattr(options, name))]
    environment = {**os.environ, **java.environment, "PYTHONPATH": f"{folder / 'src'}{os.pathsep}{ROOT}"}
    limit = options.minutes * 60 + _ROUND_SECONDS_MAX
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, check=False, timeout=limit)
    if done.returncode not in (0, 1) or not done.stdout:
        raise SystemExit(f"The fuzzer ended with exit code {done.returncode}; what it said stands above.")
    figures: dict[str, Any] = json.loads(done.stdout)
    return figures


def _processor_seconds(java: Java) -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime + java.processor_seconds


def _said(finding: dict[str, Any]) -> str:
    """What a finding says, in a few words."""
    if finding["differences"]:
        count = len(finding["differences"])
        return f"{count} row{'' if count == 1 else 's'} differ: {finding['note'] or 'from raw Spark'}"
    return _shortened(finding["error"].partition("\n")[0], _SAID_CHARACTERS_MAX)


def _shortened(text: str, characters_max: int) -> str:
    line = " ".join(text.split())
    return line if len(line) <= characters_max else f"{line[: characters_max - 1]}…"


def show(results: list[Result], *, markdown: bool) -> None:
    if markdown:
        lines = [" | ".join(cell.replace("|", "\\|") for cell in result.row()) for result in results]
        heading = [f"| {' | '.join(_COLUMNS)} |", f"|{'---|' * len(_COLUMNS)}"]
        sys.stdout.write("\n".join([*heading, *(f"| {line} |" for line in lines)]) + "\n")
        return
    table = Table(*_COLUMNS, title="mutants of the source, and how the fuzzer finds them")
    for result in results:
        table.add_row(*result.row())
    Console().print(table)


def main(arguments: list[str]) -> int:
    options = parse(arguments)
    java = Java()
    results, unfit = [], []
    for mutant in chosen(options.only):
        messages.print(f"mutant {mutant.number}: {mutant.what}")
        try:
            results.append(run(mutant, options, java))
            messages.print(", ".join(cell for cell in results[-1].row() if cell))
        except NotApplicable as error:
            unfit.append(error)
            messages.print(f"error: {error}")
    show(results, markdown=options.markdown)
    return 1 if unfit or not all(result.right for result in results) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

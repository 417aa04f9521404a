"""Makes random views over random changes, and compares each with raw Spark after every batch.

    python -m tools.fuzz_views --rounds 100 --seed 7
    python -m tools.fuzz_views --minutes 60

The round of seed S + n is replayed by --rounds 1 --seed S+n. Every third round is about expressions that fail. A
failure prints its seed, the SQL and what differs, and is written to a file as a small program that repeats it. Exit
code 1 means that there was one.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import tempfile
import time
from pathlib import Path

from rich.console import Console
from rich.table import Table

from headwater.spark.session import start_session
from tools.fuzzing.findings import Figures, Finding
from tools.fuzzing.plans import RoundPlan
from tools.fuzzing.reproducing import reproduction
from tools.fuzzing.running import INTERPRETED, MASTER
from tools.fuzzing.seeds import STEPS, VIEWS, plan_of, run_plan
from tools.fuzzing.shrinking import Shrinking

messages = Console(stderr=True, soft_wrap=True, highlight=False, markup=False)
_COUNTS = (
    "rounds", "views", "batches", "comparisons", "rows", "without_rows", "open", "timed", "reopened", "compacted",
    "verified", "failed", "set_aside", "invalid",
)  # fmt: skip


def parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rounds", type=int, metavar="N", help="number of rounds")
    parser.add_argument("--minutes", type=float, metavar="M", help="start no round after this time")
    parser.add_argument("--seed", type=int, default=1, metavar="S", help="of the first round; the next has S+1")
    parser.add_argument("--views", type=int, default=VIEWS, metavar="V", help="views in a round")
    parser.add_argument(
        "--steps", type=int, default=STEPS, metavar="B", help="steps in a round, one batch or more each"
    )
    parser.add_argument("--shrink", type=float, default=240.0, metavar="SECONDS", help="for making a failure small")
    parser.add_argument("--first", action="store_true", help="end with the first failure")
    parser.add_argument("--keep", type=Path, default=Path("fuzz-failures"), metavar="FOLDER", help="for failures")
    parser.add_argument("--codegen", action="store_true", help="let Spark compile what it runs, which takes longer")
    parser.add_argument("--examples", action="store_true", help="print a query for each construct that was refused")
    parser.add_argument("--json", action="store_true", help="figures as JSON on stdout")
    options = parser.parse_args(arguments)
    if options.rounds is None and options.minutes is None:
        parser.error("say how long: --rounds N or --minutes M")
    return options


def fuzz(options: argparse.Namespace, figures: Figures) -> int:
    """Runs rounds; the seed of the last one."""
    began, seed = time.monotonic(), int(options.seed)
    while options.rounds is None or seed < options.seed + options.rounds:
        if options.minutes is not None and time.monotonic() - began > options.minutes * 60:
            break
        one_round(seed, options, figures)
        messages.print(
            f"seed {seed}: {figures.rounds} rounds, {figures.batches} batches, {figures.comparisons} comparisons, "
            f"{len(figures.findings)} failures, {time.monotonic() - began:.0f} s"
        )
        seed += 1
        if options.first and figures.findings:
            break
    return seed - 1


def one_round(seed: int, options: argparse.Namespace, figures: Figures) -> None:
    folder = Path(tempfile.mkdtemp(prefix="headwater-fuzz-"))
    try:
        before = len(figures.findings)
        plan = plan_of(
            seed,
            folder / "trial",
            figures,
            views=options.views,
            steps=options.steps,
            stop_at_first=options.first,
        )
        for finding in figures.findings[before:]:
            messages.print(f"seed {seed}: planning\n{finding}")
        if options.first and figures.findings:
            return
        for number, finding in enumerate(run_plan(plan, folder / "log", figures, stop_at_first=options.first)):
            messages.print(f"seed {seed}: {finding}")
            keep(plan, finding, folder / f"shrinking{number}", options, f"seed{seed}-{finding.view or 'all'}")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def keep(plan: RoundPlan, finding: Finding, folder: Path, options: argparse.Namespace, name: str) -> None:
    """Makes a failure small, and writes it down."""
    small, found = Shrinking(folder, options.shrink).shrink(plan, finding) if options.shrink else (plan, finding)
    options.keep.mkdir(parents=True, exist_ok=True)
    path = options.keep / f"{name}.py"
    path.write_text(reproduction(small, found))
    messages.print(f"repeated by {path}\n{found}")


def show(figures: Figures, options: argparse.Namespace) -> None:
    table = Table("figure", "value", title=f"views against Spark: {len(figures.findings)} failures")
    for name in _COUNTS:
        table.add_row(name.replace("_", " "), str(getattr(figures, name)))
    table.add_row("refused by headwater", "\n".join(f"{count} {what}" for what, count in figures.refused.most_common()))
    table.add_row("Spark itself fails on", str(len(figures.undecided)))
    table.add_row("seconds", "\n".join(f"{value:.0f} {what}" for what, value in figures.seconds.most_common()))
    Console().print(table)
    for sql, reason in figures.undecided.items():
        messages.print(f"Spark fails on: {sql}\n  {reason}")
    if options.examples:
        for construct, sql in figures.examples.items():
            messages.print(f"{construct}:\n  {sql}")


def main(arguments: list[str]) -> int:
    options = parse(arguments)
    figures = Figures()
    # Workers are to have the modules that this process has, the one that started Java.
    settings = {"spark__executorEnv__PYTHONPATH": os.pathsep.join(sys.path)}
    session = start_session(MASTER, **settings, **({} if options.codegen else INTERPRETED))
    last = options.seed
    try:
        last = fuzz(options, figures)
    except KeyboardInterrupt:
        messages.print("interrupted")
    finally:
        session.stop()
    if options.json:
        json.dump({"last_seed": last, **figures.to_json()}, sys.stdout, indent=2, default=str)
        sys.stdout.write("\n")
    else:
        show(figures, options)
    return 1 if figures.findings else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

#!/usr/bin/env python
"""Tortures the log and looks for what must not be: kills, power cuts, damage, operations that fail.

    tools/torture_log.py --kills 1000 --seed 7
    tools/torture_log.py --power-cuts --damage --flips --failures

A failure prints the command that replays it. Exit code 1 means that there was one.
"""

from __future__ import annotations

import argparse
import json
import shlex
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table

from headwater.testing.damage import Damage, build_log, damage_everywhere, every_damage
from headwater.testing.disk import seeded
from headwater.testing.failures import WAYS, fail_everywhere, list_operations
from headwater.testing.flips import build_targets, check_every_bit, flip_bits, sample_bits, shard_bits
from headwater.testing.powercut import count_operations, cut_everywhere, sample
from headwater.testing.storage import Failure, Moment
from headwater.testing.torture import Torture, TortureFigures

IMAGES = 6
messages = Console(stderr=True)
Advance = Callable[[int, str], None]


@dataclass(slots=True)
class Report:
    """One part of the torture: its figures, what went wrong, and the options that replay each of those."""

    part: str
    figures: dict[str, object]
    failures: list[tuple[str, str]] = field(default_factory=list)
    seconds: float = 0.0


@contextmanager
def progress(what: str, total: int) -> Iterator[Advance]:
    """A bar on stderr, or a line now and then where that is a file. No thread of its own: this process forks."""
    bar = Progress(
        TextColumn(what), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TimeRemainingColumn(),
        TextColumn("{task.fields[note]}"), console=messages, auto_refresh=False,
    )  # fmt: skip
    every = 0.2 if messages.is_terminal else 30.0
    shown_at = time.monotonic()
    with bar:
        task = bar.add_task(what, total=total, note="")

        def advance(done: int, note: str) -> None:
            nonlocal shown_at
            bar.update(task, completed=done, note=note)
            if time.monotonic() - shown_at > every:
                shown_at = time.monotonic()
                bar.refresh()
                if not messages.is_terminal:
                    messages.print(f"{what}: {done} of {total}, {note}")

        yield advance
        bar.refresh()


def kill(options: argparse.Namespace) -> Report:
    folder = Path(tempfile.mkdtemp(prefix="headwater-torture-"))
    limit = options.minutes * 60 if options.minutes else None
    with progress("kills", options.kills) as advance:

        def show(now: TortureFigures) -> None:
            advance(min(now.kills, options.kills), f"{now.acknowledged} acknowledged, {len(now.problems)} problems")

        result = Torture(folder / "log", seed=options.seed).run(options.kills, seconds_max=limit, progress=show)
    figures: dict[str, object] = {
        "processes killed": result.kills,
        "of these inside a commit": result.aimed,
        "times all at once": result.all_at_once,
        "commits acknowledged": result.acknowledged,
        "commits in doubt when killed": result.doubtful + result.doubtful_happened,
        "of these found whole later": result.doubtful_happened,
        "repeats recognised": result.duplicates_recognised,
        "verdicts": result.verdicts,
        "records compared": result.records_checked,
        "kills per second": round(result.kills / result.seconds, 1),
        "slowest opening (ms)": round(result.open_seconds_max * 1000, 1),
        "killed, by role": dict(sorted(result.killed.items())),
        "segments in the end": result.segments,
    }
    replay = f"--kills {options.kills} --seed {options.seed}"
    if result.problems:
        figures["kept for you"] = str(folder / "log")
    else:
        shutil.rmtree(folder)
    return Report("kills", figures, [(problem, replay) for problem in result.problems])


def cut_power(options: argparse.Namespace, folder: Path) -> Report:
    images: tuple[int, ...] = tuple(range(options.images))
    choose: Callable[[Moment], bool] = sample(options.seed, options.part)
    if options.only:
        moment, _, image = options.only.rpartition(":")
        images, choose = (int(image),), lambda found: str(found) == moment
    with progress("power cuts", 2 * count_operations(folder)) as advance:
        result = cut_everywhere(
            folder,
            seeds=images,
            choose=choose,
            progress=lambda now: advance(now.moments, f"{now.images} disks, {len(now.broken)} problems"),
        )
    milliseconds = [1000 * seconds for seconds in result.open_seconds]
    figures: dict[str, object] = {
        "operations": result.operations,
        "moments of a cut": result.moments,
        "of these with a disk of its own": result.disks,
        "disks opened and compared": result.images,
        "commits in the script": result.acknowledged,
        "opening (ms), median": round(statistics.median(milliseconds or [0]), 1),
        "opening (ms), slowest": round(max(milliseconds, default=0), 1),
    }
    failures = [(str(broken), f"--power-cuts --only {broken.moment}:{broken.seed}") for broken in result.broken]
    return Report("power cuts", figures, failures)


def damage(options: argparse.Namespace, folder: Path) -> Report:
    build_log(folder / "count")
    chosen = every_damage(folder / "count", options.seed, bits=options.bits)
    if options.only:
        chosen = [Damage.parse(options.only)]
    elif options.part < 1:
        chosen = seeded(options.seed).sample(chosen, int(len(chosen) * options.part))
    with progress("damage", len(chosen)) as advance:
        result = damage_everywhere(
            folder,
            lambda _: chosen,
            progress=lambda now: advance(now.damages, f"{len(now.broken)} problems"),
        )
    kinds = {kind: sum(each.kind == kind for each in chosen) for kind in ("flip", "truncate", "lengthen", "remove")}
    figures: dict[str, object] = {
        "damages": result.damages,
        "of these, by kind": kinds,
        "refused on reading, found by check": result.refused,
        "harmless: behind the records": result.harmless,
        "records lost, over all repairs": result.lost,
        "records saved, over all repairs": result.saved,
    }
    return Report("damage", figures, [(text, f"--damage --only {which}") for which, text in result.broken])


def flip(options: argparse.Namespace, folder: Path) -> Report:
    targets = build_targets(folder)
    choose = shard_bits(*options.shard) if options.part >= 1 else sample_bits(options.seed, options.part)
    if options.only:
        name, _, bit = options.only.rpartition(":")
        targets, choose = [target for target in targets if target.name == name], lambda _: [int(bit)]
    with progress("flips", sum(len(list(choose(target))) for target in targets)) as advance:
        result = flip_bits(targets, choose, progress=lambda now: advance(now.flips, f"{len(now.broken)} problems"))
    checked, missed = 0, list[str]()
    if not options.only and options.part >= 1 and options.shard[0] == 0:
        for target in targets:
            if target.file.endswith(".db"):
                bits, unfound = check_every_bit(target)
                checked, missed = checked + bits, missed + unfound
    result.broken += [("check", f"not found by check: {each}") for each in missed]
    figures: dict[str, object] = {
        "bits flipped and found by check, all of the pages": checked - len(missed),
        "bits flipped one at a time": result.flips,
        "refused on opening or reading": result.refused,
        "same content, found by check": result.found,
    }
    return Report("flips", figures, [(text, f"--flips --only {shlex.quote(which)}") for which, text in result.broken])


def parse_shard(text: str) -> tuple[int, int]:
    shard, _, shards = text.partition("/")
    return int(shard), int(shards)


def fail(options: argparse.Namespace, folder: Path) -> Report:
    def choose(at: int, failure: Failure) -> bool:
        name = f"{at}:{WAYS.index(failure)}"
        return (
            name == str(options.only)
            if options.only
            else seeded(f"{options.seed} {name}").random() < float(options.part)
        )

    total = len(list_operations(folder)) * len(WAYS)
    shutil.rmtree(folder / "log")
    with progress("failing operations", total) as advance:
        result = fail_everywhere(
            folder,
            choose=choose,
            progress=lambda now: advance(now.failures, f"{len(now.broken)} problems"),
        )
    figures: dict[str, object] = {
        "operations": result.operations,
        "failures": result.failures,
        "of these refused with an error": result.refused,
    }
    failures = [(text, f"--failures --only {at}:{WAYS.index(how)}") for at, how, text in result.broken]
    return Report("failing operations", figures, failures)


def parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--kills", type=int, default=0, metavar="N", help="kill this many processes that use a log")
    parser.add_argument("--minutes", type=float, metavar="M", help="stop killing after so long")
    parser.add_argument("--power-cuts", action="store_true", help="cut the power at every operation of a script")
    parser.add_argument("--damage", action="store_true", help="flip, cut off and remove all that a log consists of")
    parser.add_argument("--flips", action="store_true", help="flip every bit of a catalog and of a view store")
    parser.add_argument("--failures", action="store_true", help="let every operation fail, in every way")
    parser.add_argument("--seed", type=int, default=1, metavar="S", help="for everything that is left to chance")
    parser.add_argument("--part", type=float, default=1.0, metavar="P", help="only this part of all cases, by chance")
    parser.add_argument("--images", type=int, default=IMAGES, metavar="I", help="disks for each power cut")
    parser.add_argument("--bits", type=int, default=1, metavar="B", help="bits flipped in each byte, 1 to 8")
    parser.add_argument(
        "--shard", type=parse_shard, default=(0, 1), metavar="I/N", help="one of N runs that together flip every bit"
    )
    parser.add_argument("--only", metavar="CASE", help="only one case, as a failure named it")
    parser.add_argument("--json", action="store_true", help="figures as JSON on stdout")
    options = parser.parse_args(arguments)
    if not (options.kills or options.power_cuts or options.damage or options.flips or options.failures):
        parser.error("nothing to do: give --kills N, --power-cuts, --damage, --flips or --failures")
    return options


def run(options: argparse.Namespace) -> Iterator[Report]:
    parts: list[tuple[bool, Callable[[argparse.Namespace, Path], Report]]] = [
        (options.power_cuts, cut_power),
        (options.damage, damage),
        (options.flips, flip),
        (options.failures, fail),
    ]
    if options.kills:
        yield timed(lambda: kill(options))
    for wanted, part in parts:
        if wanted:
            with tempfile.TemporaryDirectory(prefix="headwater-torture-", dir=fast_folder()) as folder:
                yield timed(lambda part=part, folder=folder: part(options, Path(folder)))  # type: ignore[misc]


def fast_folder() -> str | None:
    """Memory, where there is some to write to: these parts make thousands of logs, and simulate the disk themselves."""
    return "/dev/shm" if Path("/dev/shm").is_dir() else None


def timed(act: Callable[[], Report]) -> Report:
    began = time.monotonic()
    report = act()
    report.seconds = round(time.monotonic() - began, 1)
    return report


def show(report: Report, seed: int) -> None:
    table = Table("figure", "value", title=f"{report.part}: {len(report.failures)} problems in {report.seconds} s")
    for name, value in report.figures.items():
        shown = ", ".join(f"{k} {v}" for k, v in value.items()) if isinstance(value, dict) else str(value)
        table.add_row(name, shown)
    Console().print(table)
    for problem, replay in report.failures[:20]:
        seeded_replay = replay if "--seed" in replay else f"{replay} --seed {seed}"
        messages.print(f"[bold]problem:[/] {problem}", soft_wrap=True)
        messages.print(f"replay with: {sys.executable} {shlex.quote(sys.argv[0])} {seeded_replay}", soft_wrap=True)


def main(arguments: list[str]) -> int:
    options = parse(arguments)
    reports = []
    for report in run(options):
        reports.append(report)
        if not options.json:
            show(report, options.seed)
    if options.json:
        keys = ("part", "seconds", "figures", "failures")
        json.dump([{key: getattr(report, key) for key in keys} for report in reports], sys.stdout, indent=2)
        sys.stdout.write("\n")
    return 1 if any(report.failures for report in reports) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

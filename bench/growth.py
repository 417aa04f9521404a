"""Whether appending slows down as a log grows: a large log and an empty one, measured in turns."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa

import headwater as hw
from bench.floors import Floors
from bench.report import Line
from bench.samples import BATCH_ROWS, SCHEMA, batches
from bench.scale import FULL_ROWS, Scale
from headwater.log.embedded.log import EmbeddedLog

GOAL = 0.9
ROUND_BATCHES = 40
PAUSE_SECONDS = 0.1


def measure(directory: Path, _floors: Floors, scale: Scale, step: Callable[[str], None]) -> Iterator[Line]:
    step(f"growing a log to {scale.grown_rows:,} rows")
    tables = batches()
    with EmbeddedLog(directory / "grown") as grown:
        grown.create("records", SCHEMA)
        for _ in range(scale.grown_rows // BATCH_ROWS):
            grown.append("records", next(tables))
        step("growing: sealing what is left")
        _wait_until_sealed(grown)
        ratios, speeds = [], []
        for number in range(scale.growth_rounds):
            step(f"append speed, large against empty, round {number + 1}")
            with EmbeddedLog(directory / f"empty-{number}") as empty:
                empty.create("records", SCHEMA)
                empty.append("records", next(tables))
                large, small = _in_turns(grown, empty, tables, swapped=number % 2 == 1)
            ratios.append(small / large)
            speeds.append(BATCH_ROWS / large)
        segments = len(grown.segments("records"))
    scaled = "" if scale.grown_rows >= FULL_ROWS else "; scaled down, 100 million with `--full`"
    yield Line(
        f"append after {scale.grown_rows:,} rows",
        statistics.median(ratios),
        "x an empty log's",
        GOAL,
        floor="an empty log",
        ratio=statistics.median(ratios),
        note=(
            f"{statistics.median(speeds):,.0f} rows/s, {segments} segments, median of {scale.growth_rounds} rounds "
            f"in turns, {min(ratios):.2f} to {max(ratios):.2f}{scaled}"
        ),
        detail={"rows": scale.grown_rows, "segments": segments, "ratios": ratios},
    )


def _wait_until_sealed(log: EmbeddedLog) -> None:
    """So that the upkeep of what was written before does not slow down what is measured."""
    while any(segment.state == "closed" for segment in log.segments("records")):
        time.sleep(PAUSE_SECONDS)


def _in_turns(grown: hw.Log, empty: hw.Log, tables: Iterator[pa.Table], *, swapped: bool) -> tuple[float, float]:
    """The median seconds of an append to each, one after the other so that both see the same machine."""
    taken: dict[hw.Log, list[float]] = {grown: [], empty: []}
    order = [empty, grown] if swapped else [grown, empty]
    for _ in range(ROUND_BATCHES):
        for log in order:
            table = next(tables)
            began = time.perf_counter()
            log.append("records", table)
            taken[log].append(time.perf_counter() - began)
    return statistics.median(taken[grown]), statistics.median(taken[empty])

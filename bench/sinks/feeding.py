"""Rows per second: the first content of a view, and changes that wait, each against the target's own floor."""

from __future__ import annotations

import statistics
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa

from bench.report import Floor, Line
from bench.sinks.outside import Outside
from headwater.engine.parts import Report, Stop
from headwater.engine.reading import Reader
from headwater.engine.sinks.delivering import TargetSink
from headwater.engine.sinks.feed import Feed
from headwater.engine.sinks.target import Assignment
from headwater.log.opening import open_log
from headwater.views.zset import WEIGHT
from tests.unit.engine.samples import Driver

CHANGES = 1000
TEXT = "a text of about sixty bytes, as the rows of views are, number"
ROUNDS = 3
GOAL = 0.5


def measure(outside: Outside, place: Path, rows: int, batches: int) -> tuple[list[Floor], list[Line]]:
    """The floor, and lines for first content and for batches of 1,000 changes that wait."""
    content = _rows(np.arange(1, rows + 1), 0)
    changes = _rows(np.arange(1, batches * CHANGES + 1), 1)
    floor = rows / statistics.median(outside.fill(content) for _ in range(ROUNDS))
    floor_of_changes = changes.num_rows / statistics.median(outside.fill(changes) for _ in range(ROUNDS))
    firsts, steadies = zip(
        *(_measure_once(outside, place / str(each), each, content, batches) for each in range(ROUNDS)), strict=True
    )
    first, steady = statistics.median(firsts), statistics.median(steadies)
    name = outside.name
    note = f"{rows:,} rows; rounds: {', '.join(f'{each:,.0f}' for each in firsts)}"
    waiting = f"{batches} batches of {CHANGES:,} changed rows; rounds: {', '.join(f'{each:,.0f}' for each in steadies)}"
    return (
        [
            Floor(f"{name}: {outside.floor}", floor, "rows/s", f"{rows:,} rows, written out beforehand"),
            Floor(f"{name}: the same with {changes.num_rows:,} rows", floor_of_changes, "rows/s"),
        ],
        [
            Line(f"{name}: first content", first, "rows/s", GOAL * floor, floor=outside.floor, ratio=first / floor,
                 note=note),
            Line(f"{name}: changes that wait", steady, "rows/s", floor=outside.floor, ratio=steady / floor_of_changes,
                 note=waiting),
        ],
    )  # fmt: skip


def _measure_once(outside: Outside, place: Path, number: int, content: pa.Table, batches: int) -> tuple[float, float]:
    directory = place / "pipeline"
    driver = Driver(directory)
    with open_log(place / "log") as log:
        driver.publish({"v": _changes(content, 1)})
        assignment = Assignment("bench", f"s{number}", "v", ("key",))
        sink = TargetSink(outside.target(number), assignment, directory, log, "letters")
        feed = Feed(directory, f"s{number}", "v", sink, "content")
        first = _fed(feed, directory, 1)
        for batch in range(batches):
            keys = np.arange(batch * CHANGES + 1, (batch + 1) * CHANGES + 1)
            old, new = _rows(keys, 0), _rows(keys, 1)
            driver.publish({"v": pa.concat_tables([_changes(old, -1), _changes(new, 1)])})
        steady = _fed(feed, directory, 1 + batches)
    driver.close()
    return content.num_rows / first, batches * CHANGES / steady


def _fed(feed: Feed, directory: Path, position: int) -> float:
    """Seconds from the start of the feed until the target has a position."""
    stop = Stop()
    thread = threading.Thread(target=feed.run, args=(stop, Report()), daemon=True)
    began = time.perf_counter()
    thread.start()
    with Reader(directory) as reader:
        while feed.status(reader).position != str(position):
            assert thread.is_alive(), feed.status(reader).error
            time.sleep(0.002)
    taken = time.perf_counter() - began
    stop.set()
    thread.join()
    return taken


def _rows(keys: np.ndarray[tuple[int], np.dtype[np.int64]], version: int) -> pa.Table:
    return pa.table({"key": pa.array(keys, pa.int64()), "text": pa.array([f"{TEXT} {version} {key}" for key in keys])})


def _changes(rows: pa.Table, weight: int) -> pa.Table:
    weights = pa.array(np.full(rows.num_rows, weight), pa.int64())
    return rows.add_column(0, "_hash", rows["key"]).append_column(WEIGHT, weights)


def names(chosen: list[str] | None, known: Iterator[str]) -> list[str]:
    """The targets to measure. Raises `KeyError`."""
    every = list(known)
    unknown = set(chosen or ()) - set(every)
    if unknown:
        raise KeyError(", ".join(sorted(unknown)))
    return list(chosen or every)

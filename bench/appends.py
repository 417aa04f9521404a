"""Appending: batches in Arrow, as dicts and as JSON lines, and single records with an fsync each."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import headwater as hw
from bench.floors import MEGABYTE, Floors
from bench.report import Line
from bench.samples import BATCH_ROWS, ROW_BYTES, SCHEMA, SMALL_SCHEMA, batches, dicts, json_lines, small_record
from bench.scale import Scale
from bench.timing import MILLISECONDS, latencies, percentile, rate
from headwater.log.embedded.position import commit_of

BATCH_GOAL = 1_000_000
THREADS = 16
ONE_EACH = "one fdatasync and one SQLite commit each"
SYNCED = "sequential write, fdatasync per 1 MB"


def measure(directory: Path, floors: Floors, scale: Scale, step: Callable[[str], None]) -> Iterator[Line]:
    with hw.open(directory / "appends") as log:
        log.create("one", SCHEMA)
        log.create("four", SCHEMA, key="id", partitions=4)
        log.create("single", SMALL_SCHEMA)
        for topic, name in (("one", "1 partition"), ("four", "4 partitions by key")):
            step(f"batch append, {name}")
            yield _batches(log, topic, name, floors, scale)
        step("dict append")
        yield _dicts(log, scale)
        step("JSON lines append")
        yield _json_lines(log, scale)
        step("single appends")
        yield _single(log, floors, scale)
        yield _threads(log, floors, scale)


def _batches(log: hw.Log, topic: str, name: str, floors: Floors, scale: Scale) -> Line:
    tables = batches()

    def append() -> int:
        log.append(topic, next(tables))
        return BATCH_ROWS

    rows = rate(append, seconds=scale.seconds)
    return Line(
        f"batch append, {name}",
        rows,
        "rows/s",
        BATCH_GOAL,
        floor=SYNCED,
        ratio=rows * ROW_BYTES / MEGABYTE / floors.synced_megabytes,
        note=f"10,000-row Arrow batches of 100-byte rows, durable: {rows * ROW_BYTES / MEGABYTE:,.0f} MB/s",
    )


def _dicts(log: hw.Log, scale: Scale) -> Line:
    rows = dicts(next(batches()))

    def append() -> int:
        log.append("one", rows)
        return len(rows)

    return Line("dict append", rate(append, seconds=scale.seconds), "rows/s", note="lists of 10,000 dicts, durable")


def _json_lines(log: hw.Log, scale: Scale) -> Line:
    lines = json_lines(next(batches()))

    def append() -> int:
        log.append("one", lines)
        return BATCH_ROWS

    return Line("JSON lines append", rate(append, seconds=scale.seconds), "rows/s", note="10,000 lines each, durable")


def _single(log: hw.Log, floors: Floors, scale: Scale) -> Line:
    numbers = itertools.count()
    taken = latencies(lambda: log.append("single", [small_record(next(numbers))]), seconds=scale.seconds)
    floor = floors.fdatasync_p50 + floors.sqlite_commit_p50
    p50, p99 = (percentile(taken, part) * MILLISECONDS for part in (0.5, 0.99))
    return Line(
        "single appends, one thread",
        len(taken) / sum(taken),
        "appends/s",
        floor=ONE_EACH,
        ratio=floor / p50,
        note=f"1 KB each, durable; p50 {p50:.2f} ms, p99 {p99:.2f} ms; the two p50 of the floor are {floor:.2f} ms",
    )


def _threads(log: hw.Log, floors: Floors, scale: Scale) -> Line:
    """As `_single`, from many threads at once: how many appends share an fsync."""
    position = commit_of(log.position())

    def append(_: int) -> list[float]:
        return latencies(lambda: log.append("single", [small_record(0)]), seconds=scale.seconds)

    began = time.perf_counter()
    with ThreadPoolExecutor(THREADS) as pool:
        taken = [one for mine in pool.map(append, range(THREADS)) for one in mine]
    elapsed = time.perf_counter() - began
    commits = commit_of(log.position()) - position
    p50, p99 = (percentile(taken, part) * MILLISECONDS for part in (0.5, 0.99))
    return Line(
        f"single appends, {THREADS} threads",
        len(taken) / elapsed,
        "appends/s",
        floor=ONE_EACH,
        ratio=len(taken) / elapsed * (floors.fdatasync_p50 + floors.sqlite_commit_p50) / MILLISECONDS,
        note=f"1 KB each, durable; {len(taken) / commits:.1f} in a commit; p50 {p50:.2f} ms, p99 {p99:.2f} ms",
    )

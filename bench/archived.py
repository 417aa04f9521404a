"""Reading sealed segments that are in an archive only, in another directory, against reading them here."""

from __future__ import annotations

import shutil
import statistics
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from bench.floors import Floors
from bench.report import Line
from bench.samples import BATCH_ROWS, SCHEMA, batches
from bench.scale import Scale
from bench.timing import rate
from headwater.log.embedded.cache import FOLDER
from headwater.log.embedded.log import EmbeddedLog

ROUNDS = 3


def measure(directory: Path, _floors: Floors, scale: Scale, step: Callable[[str], None]) -> Iterator[Line]:
    with EmbeddedLog(directory / "log", upkeep=False, durability="os") as log:
        step("archive: writing the records")
        log.create("records", SCHEMA)
        tables = batches()
        for _ in range(scale.read_rows // BATCH_ROWS):
            log.append("records", next(tables))
        log.seal("records")

        def read() -> int:
            return sum(batch.records.num_rows for batch in log.batches("records"))

        step("reading local segments")
        local = rate(read, seconds=scale.seconds, rounds=ROUNDS)
        step("archiving the segments")
        began = time.perf_counter()
        log.alter("records", archive=directory / "archive", retention_bytes=1)
        size = sum(segment.bytes for segment in log.segments("records"))
        log.upkeep()
        uploaded = size / (time.perf_counter() - began) / (1 << 20)
        step("reading archived segments")
        cold = statistics.median(_without_cache(log, read) for _ in range(ROUNDS))
        warm = rate(read, seconds=scale.seconds, rounds=ROUNDS)
    floor = "the same segments, local"
    rows = f"all columns of {scale.read_rows:,} rows, checksums checked"
    yield Line("archived read", cold, "rows/s", None, floor=floor, ratio=cold / local, note=f"{rows}; empty cache")
    yield Line("archived read, cached", warm, "rows/s", None, floor=floor, ratio=warm / local, note=rows)
    yield Line("archiving", uploaded, "MiB/s", None, note="to a directory on the same disk, synced and read back")


def _without_cache(log: EmbeddedLog, read: Callable[[], int]) -> float:
    """Rows per second of one reading with an empty cache."""
    shutil.rmtree(log.directory / FOLDER, ignore_errors=True)
    began = time.perf_counter()
    rows = read()
    return rows / (time.perf_counter() - began)

"""Columnar reading: all records of a topic as Arrow batches, before and after its segments are sealed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import headwater as hw
from bench.floors import Floors
from bench.report import Line
from bench.samples import BATCH_ROWS, SCHEMA, batches
from bench.scale import Scale
from bench.timing import rate
from headwater.log.embedded.log import EmbeddedLog

GOAL = 5_000_000
TWO_COLUMNS = ("id", "amount")


def measure(directory: Path, floors: Floors, scale: Scale, step: Callable[[str], None]) -> Iterator[Line]:
    # Without upkeep nothing is sealed behind our back.
    with EmbeddedLog(directory / "reads", upkeep=False, durability="os") as log:
        step("reading: writing the records")
        log.create("records", SCHEMA)
        tables = batches()
        for _ in range(scale.read_rows // BATCH_ROWS):
            log.append("records", next(tables))
        note = f"all columns of {scale.read_rows:,} rows, checksums checked"
        step("reading unsealed segments")
        yield _line(log, "columnar read, unsealed", None, scale, "Arrow IPC read", floors.arrow_read_rows, note)
        step("reading: sealing the segments")
        log.seal("records")
        step("reading sealed segments")
        yield _line(log, "columnar read, sealed", None, scale, "Parquet read", floors.parquet_read_rows, note)
        yield _line(
            log, "columnar read, sealed, 2 columns", TWO_COLUMNS, scale, "Parquet read", floors.parquet_read_rows,
            f"the columns {' and '.join(TWO_COLUMNS)}; the floor reads all",
        )  # fmt: skip


def _line(
    log: hw.Log, name: str, columns: Sequence[str] | None, scale: Scale, floor: str, floor_rows: float, note: str
) -> Line:
    def read() -> int:
        return sum(batch.records.num_rows for batch in log.batches("records", columns=columns))

    rows = rate(read, seconds=scale.seconds, rounds=3)
    goal = GOAL if columns is None else None
    return Line(name, rows, "rows/s", goal, floor=floor, ratio=rows / floor_rows, note=note)

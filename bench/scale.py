"""How much a run does: the usual, a quick look that only shows that everything works, or all of it."""

from __future__ import annotations

from dataclasses import dataclass, replace

from bench.samples import BATCH_ROWS

FULL_ROWS = 100_000_000
# What a row of 100 bytes takes while it is in both an unsealed and a sealed segment, and some room for the rest.
DISK_BYTES_PER_ROW = 250


@dataclass(frozen=True, slots=True)
class Scale:
    """`seconds` is what one measurement of a rate takes; windows are records in flight per producer."""

    name: str
    seconds: float
    windows: tuple[int, ...]
    process_windows: tuple[int, ...]
    window_seconds: float
    producer_processes: int
    read_rows: int
    commits: int
    segments: int
    opens: int
    grown_rows: int
    growth_rounds: int

    def grown_to(self, rows: int) -> Scale:
        """The same with this many rows in the log whose growth is measured, in whole batches."""
        return replace(self, grown_rows=max(BATCH_ROWS, rows - rows % BATCH_ROWS))


USUAL = Scale(
    name="usual",
    seconds=3.0,
    windows=(16, 25, 35, 50, 70, 100),
    process_windows=(100,),
    window_seconds=2.0,
    producer_processes=16,
    read_rows=4_000_000,
    commits=500,
    segments=10_000,
    opens=7,
    grown_rows=FULL_ROWS // 10,
    growth_rounds=9,
)
QUICK = Scale(
    name="quick",
    seconds=0.2,
    windows=(25,),
    process_windows=(25,),
    window_seconds=0.3,
    producer_processes=2,
    read_rows=100_000,
    commits=20,
    segments=50,
    opens=1,
    grown_rows=200_000,
    growth_rounds=2,
)
FULL = replace(USUAL, name="full", grown_rows=FULL_ROWS)

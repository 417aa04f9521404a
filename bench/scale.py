"""How much a run does: the usual, a quick look that only shows that everything works, or all of it."""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class Scale:
    """`seconds` is what one measurement of a rate takes; windows are records in flight per producer."""

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


USUAL = Scale(
    seconds=3.0,
    windows=(16, 25, 35, 50, 70, 100),
    process_windows=(25, 50, 100, 200),
    window_seconds=2.0,
    producer_processes=16,
    read_rows=4_000_000,
    commits=500,
    segments=10_000,
    opens=7,
    grown_rows=10_000_000,
    growth_rounds=9,
)
QUICK = Scale(
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
FULL = replace(USUAL, grown_rows=100_000_000)

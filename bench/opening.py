"""Opening a log that has many segments, in a fresh process each time."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from bench.floors import Floors
from bench.report import Line
from bench.scale import Scale
from bench.timing import MILLISECONDS
from headwater.log.embedded.log import EmbeddedLog

GOAL = 200.0
# Runs by itself, so that nothing but headwater is imported.
_OPEN = """
import json, sqlite3, sys, time
began = time.perf_counter()
import headwater
imported = time.perf_counter()
log = headwater.open(sys.argv[1])
opened = time.perf_counter()
log.append("records", [{"number": 1}])
appended = time.perf_counter()
first = next(log.batches("records")).records.num_rows
read = time.perf_counter()
log.close()
again = time.perf_counter()
connection = sqlite3.connect(sys.argv[1] + "/catalog.db")
connection.execute("SELECT commit_number FROM log").fetchone()
connected = time.perf_counter()
print(json.dumps({"import": imported - began, "open": opened - imported, "append": appended - opened,
                  "read": read - appended, "sqlite": connected - again}))
"""


def measure(directory: Path, _floors: Floors, scale: Scale, step: Callable[[str], None]) -> Iterator[Line]:
    step(f"opening: making {scale.segments:,} segments")
    made = _make(directory / "opening", scale.segments)
    step("opening in fresh processes")
    runs = [_open(directory / "opening") for _ in range(scale.opens)]
    median = {name: statistics.median(run[name] for run in runs) * MILLISECONDS for name in runs[0]}
    yield Line(
        f"open, {made:,} segments",
        median["open"],
        "ms",
        GOAL,
        "less",
        floor="SQLite open and one query",
        ratio=median["open"] / median["sqlite"],
        note=(
            f"fresh process; sealed segments of one record, made by appends; not counted: import {median['import']:.0f}"
            f" ms, first append {median['append']:.0f} ms, first read {median['read']:.0f} ms"
        ),
        detail={"segments": made, "milliseconds": median},
    )


def _make(directory: Path, segments: int) -> int:
    """Segments by appends that each fill one, then sealed; how many. Not durable: only the opening is measured."""
    with EmbeddedLog(directory, durability="os", upkeep=False) as log:
        log.create("records", "number bigint", segment_bytes_max=1)
        for number in range(segments):
            log.append("records", [{"number": number}])
        log.seal("records")
        log.alter("records", segment_bytes_max=64 << 20)
        return len(log.segments("records"))


def _open(directory: Path) -> dict[str, float]:
    command = [sys.executable, "-c", _OPEN, str(directory)]
    answer = subprocess.run(command, check=True, capture_output=True, text=True)
    times: dict[str, float] = json.loads(answer.stdout)
    return times

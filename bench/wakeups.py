"""From a commit to a follower in another process: how long until the follower holds the record."""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from multiprocessing.connection import Connection
from pathlib import Path

import headwater as hw
from bench.floors import Floors
from bench.report import Line
from bench.scale import Scale
from bench.timing import MILLISECONDS, percentile

P50_GOAL = 5.0
P99_GOAL = 20.0
PAUSE_SECONDS = 0.01
# Longer than any wake-up; it ends the follower if the writer is gone.
PATIENCE = timedelta(seconds=30)


def measure(directory: Path, floors: Floors, scale: Scale, step: Callable[[str], None]) -> Iterator[Line]:
    step("wake-up of a follower")
    taken = _wake_ups(directory / "wakeups", scale.commits)
    note = f"{scale.commits} commits, 100 a second, from the append's return to the record in the follower's hands"
    for name, part, goal, floor in (
        ("p50", 0.5, P50_GOAL, floors.pipe_p50),
        ("p99", 0.99, P99_GOAL, floors.pipe_p99),
    ):
        value = percentile(taken, part) * MILLISECONDS
        yield Line(
            f"wake-up in another process, {name}", value, "ms", goal, "less",
            floor=f"a byte to another process, {name}", ratio=value / floor, note=note,
        )  # fmt: skip


def _wake_ups(directory: Path, commits: int) -> list[float]:
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    with hw.open(directory) as log:
        log.create("records", "number bigint")
        # The follower says when it holds this one: it has imported and opened everything then, and so have we.
        log.append("records", [{"number": 0}])
        child = context.Process(target=_follow, args=(directory, commits, theirs), daemon=True)
        child.start()
        ours.recv()
        committed: list[int] = []
        due = time.monotonic()
        for number in range(commits):
            due += PAUSE_SECONDS
            time.sleep(max(0.0, due - time.monotonic()))
            log.append("records", [{"number": number}])
            committed.append(time.monotonic_ns())
        received: list[int] = ours.recv()
        child.join()
    # A follower may hold the record before the writer's own call has returned.
    return [max(0, after - before) / 1e9 for before, after in zip(committed, received, strict=True)]


def _follow(directory: Path, commits: int, connection: Connection) -> None:
    received: list[int] = []
    with hw.open(directory, upkeep=False) as log:
        batches = log.batches("records", follow=True, idle_timeout=PATIENCE)
        next(batches)
        connection.send("ready")
        for batch in batches:
            received += [time.monotonic_ns()] * batch.records.num_rows
            if len(received) == commits:
                break
    connection.send(received)

"""Many producers of single 1 KB records at once, in the threads of one process and in as many processes.

The window is how many records a producer may have in flight, its `buffer_records_max` under the policy `block`: a
small one keeps the acknowledgement quick, a large one lets more records share an fsync.
"""

from __future__ import annotations

import multiprocessing
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from dataclasses import asdict, dataclass
from multiprocessing.synchronize import Barrier
from pathlib import Path

import headwater as hw
from bench.floors import Floors
from bench.report import Line
from bench.samples import SMALL_SCHEMA, small_record
from bench.scale import Scale
from bench.timing import MILLISECONDS, percentile

PRODUCERS = 16
RATE_GOAL = 50_000
P99_GOAL = 25.0
TOPIC = "records"
ONE_BY_ONE = "one fdatasync per record"
WARM_UP_RECORDS = 2_000
LAST_RECORD_SECONDS_MAX = 60.0


@dataclass(frozen=True, slots=True)
class Outcome:
    """What producers reached with one window; times in milliseconds, from `send` to the future's result."""

    window: int
    records_per_second: float
    p50: float
    p99: float

    @property
    def merit(self) -> tuple[bool, float]:
        """For the choice of a window: quick enough first, then fast."""
        return self.p99 <= P99_GOAL, self.records_per_second if self.p99 <= P99_GOAL else -self.p99


def measure(directory: Path, floors: Floors, scale: Scale, step: Callable[[str], None]) -> Iterator[Line]:
    def in_threads(window: int, seconds: float) -> Outcome:
        step(f"{PRODUCERS} producers, threads, {window} in flight")
        return _threads(directory / f"threads-{window}-{seconds}", window, seconds)

    def in_processes(window: int, seconds: float) -> Outcome:
        step(f"{scale.producer_processes} producers, processes, {window} in flight")
        return _processes(directory / f"processes-{window}-{seconds}", window, seconds, scale.producer_processes)

    yield from _lines("threads", PRODUCERS, in_threads, scale.windows, floors, scale)
    yield from _lines("processes", scale.producer_processes, in_processes, scale.process_windows, floors, scale)


def _lines(
    kind: str,
    count: int,
    run: Callable[[int, float], Outcome],
    windows: tuple[int, ...],
    floors: Floors,
    scale: Scale,
) -> Iterator[Line]:
    """Tries the windows, then measures the best one again, for longer."""
    tried = [run(window, scale.window_seconds) for window in windows] if len(windows) > 1 else []
    window = max(tried, key=lambda outcome: outcome.merit).window if tried else windows[0]
    best = run(window, scale.seconds * 2)
    name = f"{count} producers in {kind}"
    has_goal = kind == "threads"
    note = f"{best.window} in flight each, 1 KB records, durable"
    others = "; ".join(f"{o.window}: {o.records_per_second:,.0f}/s, p99 {o.p99:.0f} ms" for o in tried)
    yield Line(
        name,
        best.records_per_second,
        "records/s",
        RATE_GOAL if has_goal else None,
        floor=ONE_BY_ONE,
        ratio=best.records_per_second * floors.fdatasync_p50 / MILLISECONDS,
        note=f"{note}. Windows tried: {others}" if tried else note,
        detail={"chosen": asdict(best), "tried": [asdict(outcome) for outcome in tried]},
    )
    yield Line(
        f"{name}, acknowledgement p99",
        best.p99,
        "ms",
        P99_GOAL if has_goal else None,
        "less",
        floor="fdatasync p99",
        ratio=best.p99 / floors.fdatasync_p99,
        note=f"{note}; p50 {best.p50:.1f} ms",
    )


def _threads(directory: Path, window: int, seconds: float) -> Outcome:
    with hw.open(directory) as log:
        log.create(TOPIC, SMALL_SCHEMA)
        _warm_up(log)
        taken: list[list[float]] = [[] for _ in range(PRODUCERS)]
        began = time.perf_counter()
        until = began + seconds
        threads = [threading.Thread(target=_produce, args=(log, window, until, mine)) for mine in taken]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        elapsed = time.perf_counter() - began
    return _outcome(window, elapsed, [one for mine in taken for one in mine])


def _processes(directory: Path, window: int, seconds: float, count: int) -> Outcome:
    context = multiprocessing.get_context("spawn")
    with hw.open(directory) as log:
        log.create(TOPIC, SMALL_SCHEMA)
        barrier = context.Barrier(count)
        with context.Pool(count, _remember, (barrier,)) as pool:
            jobs = [(directory, window, seconds)] * count
            parts = pool.starmap(_produce_alone, jobs, chunksize=1)
    elapsed = max(end for _, end, _ in parts) - min(began for began, _, _ in parts)
    return _outcome(window, elapsed, [one for _, _, taken in parts for one in taken])


class _Start:
    """The barrier at which the producers of a worker process wait for those of the others."""

    barrier: Barrier


def _remember(barrier: Barrier) -> None:
    _Start.barrier = barrier


def _produce_alone(directory: Path, window: int, seconds: float) -> tuple[float, float, list[float]]:
    taken: list[float] = []
    with hw.open(directory) as log:
        _warm_up(log)
        _Start.barrier.wait()
        began = time.monotonic()
        _produce(log, window, time.perf_counter() + seconds, taken)
        return began, time.monotonic(), taken


def _produce(log: hw.Log, window: int, until: float, taken: list[float]) -> None:
    """Sends until the time is over; notes how long each record took to become durable."""
    clock = time.perf_counter
    sent: list[float] = []
    done: list[float] = []

    def acknowledged(_: Future[hw.Position]) -> None:
        done.append(clock())

    with log.producer(TOPIC, buffer_records_max=window) as producer:
        last = producer.send(small_record(0))
        while (now := clock()) < until:
            sent.append(now)
            last = producer.send(small_record(len(sent)))
            last.add_done_callback(acknowledged)
    last.result(LAST_RECORD_SECONDS_MAX)
    # A producer's records become durable in the order in which they were sent.
    taken += [after - before for before, after in zip(sent, done, strict=True)]


def _warm_up(log: hw.Log) -> None:
    with log.producer(TOPIC) as producer:
        for number in range(WARM_UP_RECORDS):
            producer.send(small_record(number))


def _outcome(window: int, elapsed: float, taken: list[float]) -> Outcome:
    p50, p99 = (percentile(taken, part) * MILLISECONDS for part in (0.5, 0.99))
    return Outcome(window, len(taken) / elapsed, p50, p99)

"""The clock of a log ticks while something reads it, once for all applications that share the log."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from headwater.engine.parts import Report, Stop
from headwater.engine.ticking import Ticking
from headwater.log.embedded.log import EmbeddedLog
from headwater.system.clock import instant
from headwater.testing.clock import ManualClock

SECOND = timedelta(seconds=1)


@pytest.fixture
def log(tmp_path: Path) -> Iterator[EmbeddedLog]:
    with EmbeddedLog(tmp_path / "log") as log:
        yield log


def ticks(log: EmbeddedLog) -> list[object]:
    return [] if log.now() is None else log.scan("headwater.clock")["at"].to_pylist()


def test_it_ticks_when_the_time_has_come(log: EmbeddedLog) -> None:
    clock = ManualClock()
    ticking = Ticking(log, SECOND, lambda: True, clock)
    now = clock.now() // 1_000_000 * 1_000_000
    assert ticking.tick() <= 1
    assert ticking.tick() <= 1
    assert ticks(log) == [instant(now)]
    clock.advance(3 * SECOND)
    ticking.tick()
    assert ticks(log) == [instant(now), instant(now + 3_000_000)]


def test_another_application_has_ticked(log: EmbeddedLog) -> None:
    clock = ManualClock()
    Ticking(log, SECOND, lambda: True, clock).tick()
    Ticking(log, SECOND, lambda: True, clock).tick()
    assert len(ticks(log)) == 1


def test_a_machine_whose_clock_is_behind_waits(log: EmbeddedLog) -> None:
    clock = ManualClock()
    later = instant(clock.now()) + timedelta(minutes=1)
    log.tick(later)
    Ticking(log, SECOND, lambda: True, clock).tick()
    assert ticks(log) == [later]


def test_it_ticks_only_while_a_view_reads_it(log: EmbeddedLog) -> None:
    read, stop = threading.Event(), Stop()
    ticking = Ticking(log, timedelta(milliseconds=10), read.is_set)
    thread = threading.Thread(target=ticking.run, args=(stop, Report()))
    thread.start()
    try:
        time.sleep(0.3)
        assert log.now() is None
        read.set()
        deadline = time.monotonic() + 30
        while len(ticks(log)) < 3 and time.monotonic() < deadline:
            time.sleep(0.01)
    finally:
        stop.set()
        thread.join()
    assert len(ticks(log)) >= 3
